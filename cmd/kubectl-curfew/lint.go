package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/webhook/lint"
)

// lintOptions are the flags of lint, each documented where it is added.
type lintOptions struct {
	files            []string
	recursive        bool
	namespace        string
	output           *output
	warningsAsErrors bool
	warnBelow        string
	strictLabels     bool
	expiredLabels    string
	kyvernoLabel     bool
	nativeTTL        string
	// now is when the manifests would be created.
	now func() time.Time
}

func lintCommand(now func() time.Time) *cobra.Command {
	options := lintOptions{namespace: lint.DefaultNamespace, output: newOutput("table", "wide", "github"), warnBelow: "60s", expiredLabels: "deny", nativeTTL: "on", now: now}
	options.output.nameless = true // Findings have no names.
	command := &cobra.Command{
		Use:   "lint -f FILE|DIR|-",
		Short: "Say what admission would refuse, warn about and fill in, without a cluster",
		Long: `Say what Curfew's admission would refuse, warn about and fill in for the objects
of manifests, without a cluster.

All files are judged together, whatever their order. Namespaces,
LifecyclePolicies, KindProfiles and training runtimes among them hold for the
other objects, as if all were applied; what is not among them says nothing.
LifecyclePolicies and KindProfiles are checked themselves, schema and
expressions. A TTL inside a pod template is found as well, which the API server
would silently drop.

Exit status: 0 nothing would be refused, 1 something would be (or, with
--warnings-as-errors, warned about), 2 usage.`,
		Example: `  kubectl curfew lint -f manifests/ -R
  kubectl kustomize . | kubectl curfew lint -f -
  kubectl curfew lint -f job.yaml -o wide     # what is filled in, too
  kubectl curfew lint -f job.yaml -o github   # annotations in a pull request`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q stands alone: put -f before it", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := options.validate()
			if err != nil {
				return err
			}
			return options.run(cmd.Context(), print, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&options.files, "filename", "f", nil, "file or directory with manifests, or - for standard input; may be given more than once")
	flags.BoolVarP(&options.recursive, "recursive", "R", false, "read the directories below as well")
	flags.StringVarP(&options.namespace, "namespace", "n", options.namespace, "namespace of manifests that name none")
	options.output.addFlags(command)
	flags.BoolVar(&options.warningsAsErrors, "warnings-as-errors", false, "exit with 1 on warnings, too")
	flags.StringVar(&options.warnBelow, "warn-below", options.warnBelow, "TTLs under this are warned about, as with the webhook's flag")
	flags.BoolVar(&options.strictLabels, "strict-labels", false, "deny a TTL label that cannot be read, as with the webhook's flag")
	flags.StringVar(&options.expiredLabels, "expired-labels", options.expiredLabels, "deny, or warn about, a TTL label that is expired when it is set, as with the webhook's flag")
	flags.BoolVar(&options.kyvernoLabel, "kyverno-label", false, "check label cleanup.kyverno.io/ttl as curfew.dev/ttl, as with the webhook's flag")
	flags.StringVar(&options.nativeTTL, "native-ttl", options.nativeTTL, "on: constant default TTLs go into the native field; off: into annotations, as with the webhook's flag")
	completeFlags(command, map[string]cobra.CompletionFunc{
		"output":         cobra.FixedCompletions(options.output.formats(), cobra.ShellCompDirectiveNoFileComp),
		"native-ttl":     cobra.FixedCompletions([]string{"off", "on"}, cobra.ShellCompDirectiveNoFileComp),
		"expired-labels": cobra.FixedCompletions([]string{"deny", "warn"}, cobra.ShellCompDirectiveNoFileComp),
	})
	return command
}

// validate names every flag that cannot be used, with its value and the fix.
func (o *lintOptions) validate() (printFunc, error) {
	var errs []error
	if len(o.files) == 0 {
		errs = append(errs, errors.New("-f is missing: give a file, a directory, or - for standard input"))
	}
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace=%s: %s", o.namespace, strings.Join(problems, "; ")))
	}
	print, err := o.output.printer()
	if err != nil {
		errs = append(errs, err)
	}
	if _, err := policy.ParseDuration(o.warnBelow); err != nil {
		errs = append(errs, fmt.Errorf("--warn-below=%s: %w", o.warnBelow, err))
	}
	if o.nativeTTL != "on" && o.nativeTTL != "off" {
		errs = append(errs, fmt.Errorf("--native-ttl=%s: give on or off", o.nativeTTL))
	}
	if o.expiredLabels != "deny" && o.expiredLabels != "warn" {
		errs = append(errs, fmt.Errorf("--expired-labels=%s: give deny or warn", o.expiredLabels))
	}
	return print, errors.Join(errs...)
}

// builtin returns the built-in profiles, and the schemas of Curfew's own kinds.
func builtin() (*platform.Snapshot, *lint.Schemas, error) {
	all, err := profiles.All()
	if err != nil {
		return nil, nil, err
	}
	platform, err := platform.New(all)
	if err != nil {
		return nil, nil, err
	}
	definitions, err := crd.All()
	if err != nil {
		return nil, nil, err
	}
	schemas, err := lint.NewSchemas(definitions)
	return platform.Snapshot(), schemas, err
}

func (o *lintOptions) run(ctx context.Context, print printFunc, in io.Reader, out, diagnostics io.Writer) error {
	sources, err := readSources(o.files, o.recursive, in)
	if err != nil {
		return err
	}
	var documents []*lint.Document
	var unreadable []error
	for _, source := range sources {
		read, errs := lint.Read(source, lint.Limits{})
		documents, unreadable = append(documents, read...), append(unreadable, errs...)
	}
	if len(documents)+len(unreadable) == 0 {
		// A pipe whose first command failed must not look like clean manifests.
		return errors.New("there is no manifest in what -f names: give at least one")
	}
	warnBelow, err := policy.ParseDuration(o.warnBelow)
	if err != nil {
		return err
	}
	own, schemas, err := builtin()
	if err != nil {
		return err
	}
	results, err := lint.Lint(ctx, documents, lint.Options{
		Source:          platform.Offline{Platform: own},
		Schemas:         schemas,
		Namespace:       o.namespace,
		Now:             o.now(),
		AnnotationsOnly: o.nativeTTL == "off",
		Rules:           rules.Options{WarnBelow: warnBelow, StrictLabels: o.strictLabels, WarnExpiredLabels: o.expiredLabels == "warn", KyvernoLabel: o.kyvernoLabel, Controller: policy.Surroundings{Protect: policy.DefaultProtect()}},
	})
	if err != nil {
		return err
	}
	report := lint.NewReport(results, unreadable...)
	if err := o.write(report, print, out, diagnostics); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if !report.Allowed || (o.warningsAsErrors && len(report.Findings) > 0) {
		return errBadNews
	}
	return nil
}

// lintData is the answer for programs.
type lintData struct {
	list[lint.Finding]
	Allowed  bool           `json:"allowed" doc:"nothing would be refused"`
	Objects  int            `json:"objects" doc:"how many objects were judged"`
	Defaults []lint.Default `json:"defaults" doc:"what would be filled in"`
}

func (o *lintOptions) write(report *lint.Report, print printFunc, out, diagnostics io.Writer) error {
	switch {
	case print != nil:
		return print(printed{document: lintData{listOf("FindingList", o.now(), report.Findings, nil), report.Allowed, report.Objects, report.Defaults}}, out)
	case o.output.format == "github":
		return writeGitHub(report, out)
	default:
		return writeFindings(report, o.output.format == "wide", printers.PrintOptions{NoHeaders: o.output.noHeaders}, out, diagnostics)
	}
}
