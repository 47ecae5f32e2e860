package convert

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/policy/schedule"
)

// convertOptions are the flags of convert, each documented where it is added.
type convertOptions struct {
	files     []string
	recursive bool
	strict    bool
	Options
}

// Command is kubectl curfew convert.
func Command() *cobra.Command {
	options := convertOptions{Options: Options{ServiceAccount: "curfew-cleanup", Schedule: "*/10 * * * *"}}
	command := &cobra.Command{
		Use:   "convert -f FILE|DIR|-",
		Short: "Convert cleanup policies of Kyverno and rules of kube-janitor",
		Long: `Convert cleanup policies of Kyverno and rules of kube-janitor into Curfew's
CleanupPolicies and ClusterCleanupPolicies, without a cluster.

Reads Kyverno's DeletingPolicy, NamespacedDeletingPolicy, ClusterCleanupPolicy
and CleanupPolicy, and kube-janitor's rules file or the ConfigMap with it. Other
objects are ignored; on objects with Kyverno's TTL label, convert says what to
write instead.

The policies go to standard output. What cannot be converted goes to standard
error and, as comments, into the policy, which is then suspended: without one of
its conditions it could delete more than before.

Exit status: 0 converted, 1 with --strict if something could not be converted,
2 usage.`,
		Example: `  kubectl get deletingpolicies,clustercleanuppolicies.kyverno.io -o yaml | kubectl curfew convert -f -
  kubectl curfew convert -f kyverno/ -R > policies.yaml
  kubectl curfew convert -f rules.yaml --schedule '0 * * * *' --deployment-time-annotation none`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q stands alone: put -f before it", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.validate(); err != nil {
				return err
			}
			return options.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&options.files, "filename", "f", nil, "file or directory with policies or rules, or - for standard input; may be given more than once")
	flags.BoolVarP(&options.recursive, "recursive", "R", false, "read the directories below as well")
	flags.BoolVar(&options.strict, "strict", false, "exit with 1 if something could not be converted")
	flags.StringVar(&options.ServiceAccount, "service-account", options.ServiceAccount, "serviceAccountName of policies in namespaces, which Kyverno does not have")
	flags.StringVar(&options.Schedule, "schedule", options.Schedule, "schedule of converted rules of kube-janitor")
	flags.StringVar(&options.DeploymentTime, "deployment-time-annotation", "", "that of kube-janitor, or none if it runs without; if not given, converted rules are suspended")
	return command
}

func (o *convertOptions) validate() error {
	var errs []error
	if len(o.files) == 0 {
		errs = append(errs, errors.New("-f is missing: give a file, a directory, or - for standard input"))
	}
	if problems := validation.IsDNS1123Subdomain(o.ServiceAccount); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--service-account=%s: %s", o.ServiceAccount, strings.Join(problems, "; ")))
	}
	if problems := validation.IsQualifiedName(o.DeploymentTime); o.DeploymentTime != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--deployment-time-annotation=%s: %s", o.DeploymentTime, strings.Join(problems, "; ")))
	}
	if _, err := schedule.Parse(o.Schedule, ""); err != nil {
		errs = append(errs, fmt.Errorf("--schedule: %w", err))
	}
	return errors.Join(errs...)
}

func (o *convertOptions) run(in io.Reader, out, diagnostics io.Writer) error {
	result, err := o.read(in)
	if err != nil {
		return err
	}
	lost := 0
	for _, finding := range result.Findings {
		severity := "note"
		if finding.Lost {
			severity = "not converted"
			lost++
		}
		if _, err := fmt.Fprintf(diagnostics, "%s: %s\n", severity, finding); err != nil {
			return fmt.Errorf("writing the findings: %w", err)
		}
	}
	if err := Write(out, result.Policies); err != nil {
		return fmt.Errorf("writing the policies: %w", err)
	}
	if len(result.Policies)+len(result.Findings) == 0 {
		return errors.New("there is no cleanup policy of Kyverno and no rule of kube-janitor in what -f names")
	}
	if o.strict && lost > 0 {
		return console.ErrBadNews
	}
	return nil
}

// read converts all files.
func (o *convertOptions) read(in io.Reader) (Result, error) {
	var out Result
	files, err := folders.ListFiles(o.files, o.recursive, nil, in)
	if err != nil {
		return out, err
	}
	for i := range files {
		if files[i].Skip != "" {
			out.Findings = append(out.Findings, Finding{File: files[i].Name, Reason: "is skipped: " + files[i].Skip})
			continue
		}
		source, err := files[i].Source()
		if err != nil {
			return out, err
		}
		result := Source(source.Name, source.Data, o.Options)
		out.Policies, out.Findings = append(out.Policies, result.Policies...), append(out.Findings, result.Findings...)
	}
	return out, nil
}
