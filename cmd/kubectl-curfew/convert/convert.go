package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/policy/lint"
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
		Short: "Convert policies of Kyverno, k8s-cleaner and other cleanup tools",
		Long: `Convert the policies, rules and settings of other cleanup tools into Curfew's
CleanupPolicies and ClusterCleanupPolicies, without a cluster.

Reads Kyverno's DeletingPolicy, NamespacedDeletingPolicy, ClusterCleanupPolicy
and CleanupPolicy, with its PolicyExceptions and the ConfigMap that has its
resourceFilters. Reads k8s-cleaner's Cleaner, and kube-janitor's rules file or
the ConfigMap with it. Other objects are ignored.

The policies go to standard output. What cannot be converted goes to standard
error and, as comments, into the policy. Such a policy is suspended, and has the
condition not-converted, which is false: it deletes nothing.

Exit status: 0 converted, 1 if most policies and rules could not be converted,
or with --strict if one could not be, 2 usage.`,
		Example: `  kubectl get deletingpolicies,clustercleanuppolicies,policyexceptions.policies.kyverno.io -A -o yaml | kubectl curfew convert -f -
  kubectl curfew convert -f kyverno/ -R > policies.yaml
  kubectl curfew convert -f rules.yaml --schedule '0 * * * *' --deployment-time-annotation none`,
		Args: folders.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.validate(); err != nil {
				return err
			}
			return options.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&options.files, "filename", "f", nil,
		"file or directory with policies or rules, or - for standard input; may be given more than once")
	flags.BoolVarP(&options.recursive, "recursive", "R", false, "read the directories below as well")
	flags.BoolVar(&options.strict, "strict", false, "exit with 1 if something could not be converted")
	flags.StringVar(&options.ServiceAccount, "service-account", options.ServiceAccount,
		"serviceAccountName of policies in namespaces, which Kyverno does not have")
	flags.StringVar(&options.Schedule, "schedule", options.Schedule,
		"schedule of policies whose source has none: rules of kube-janitor")
	flags.StringVar(&options.DeploymentTime, "deployment-time-annotation", "",
		"annotation of kube-janitor, or none if it runs without; if not given, rules are not converted")
	return command
}

func (o *convertOptions) validate() error {
	errs := []error{folders.Given(o.files)}
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

func (o *convertOptions) run(r io.Reader, out, diagnostics io.Writer) error {
	result, err := o.read(r)
	if err != nil {
		return err
	}
	for _, finding := range result.Findings {
		severity := "note"
		if finding.Lost {
			severity = "not converted"
		}
		if _, err := fmt.Fprintf(diagnostics, "%s: %s\n", severity, console.OneLine(finding.String())); err != nil {
			return fmt.Errorf("writing the findings: %w", err)
		}
	}
	if err := Write(out, result.Policies); err != nil {
		return fmt.Errorf("writing the policies: %w", err)
	}
	if len(result.Policies)+len(result.Findings) == 0 {
		return errors.New("-f names no policy, rule or setting of Kyverno, k8s-cleaner or kube-janitor")
	}
	refused, all := result.refused()
	switch {
	case 2*refused > all:
		_, err := fmt.Fprintf(diagnostics, "error: %d of %s could not be converted\n", refused, console.Count(all, "policy or rule", "policies and rules"))
		return errors.Join(console.ErrBadNews, err)
	case o.strict && refused > 0:
		return console.ErrBadNews
	}
	return nil
}

// refused counts the sources of which a part could not be converted, and all sources.
func (r *Result) refused() (refused, all int) {
	lost := map[string]bool{}
	for _, finding := range r.Findings {
		if finding.Lost {
			lost[finding.File+" "+finding.Object] = true
		}
	}
	converted := map[string]bool{}
	for i := range r.Policies {
		if !r.Policies[i].Spec.Suspend {
			converted[r.Policies[i].Source] = true
		}
	}
	return len(lost), len(lost) + len(converted)
}

// read converts all files.
func (o *convertOptions) read(r io.Reader) (Result, error) {
	files, err := folders.ListFiles(o.files, o.recursive, nil, r)
	if err != nil {
		return Result{}, err
	}
	var skipped []Finding
	var sources []lint.Input
	for i := range files {
		if files[i].Skip != "" {
			skipped = append(skipped, Finding{File: files[i].Name, Reason: "is skipped: " + files[i].Skip})
			continue
		}
		source, err := files[i].Source()
		if err != nil {
			return Result{}, err
		}
		sources = append(sources, source)
	}
	out := Sources(sources, o.Options)
	out.Findings = append(skipped, out.Findings...)
	return out, nil
}

// Write writes policies as YAML documents, with their findings as comments.
func Write(out io.Writer, policies []Policy) error {
	for i := range policies {
		text, err := policies[i].yaml()
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) yaml() ([]byte, error) {
	text, err := yaml.Marshal(p.Object.Object)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", p.Source, err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# From %s.\n", p.Source)
	p.comments(&out, "Not converted, so the policy deletes nothing. Correct it, then remove suspend and condition not-converted:", true)
	p.comments(&out, "To check:", false)
	out.Write(text)
	return out.Bytes(), nil
}

func (p *Policy) comments(out io.Writer, title string, lost bool) {
	for _, finding := range p.Findings {
		if finding.Lost != lost {
			continue
		}
		if title != "" {
			fmt.Fprintf(out, "# %s\n", title)
			title = ""
		}
		text := Finding{Field: finding.Field, Reason: finding.Reason}.String()
		fmt.Fprintf(out, "#   %s\n", strings.Join(strings.Fields(text), " "))
	}
}
