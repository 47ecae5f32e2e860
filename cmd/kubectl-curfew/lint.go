package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
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
	*connection
	files            []string
	recursive        bool
	ignored          []string
	server           bool
	namespace        string
	output           *output
	warningsAsErrors bool
	warnBelow        string
	strictLabels     bool
	expiredLabels    string
	kyvernoLabel     bool
	nativeTTL        string
}

func lintCommand(env environment) *cobra.Command {
	options := lintOptions{connection: newConnection(env), output: newOutput("table", "wide", "github"), warnBelow: "60s", expiredLabels: "deny", nativeTTL: "on"}
	options.output.nameless = true // Findings have no names.
	command := &cobra.Command{
		Use:   "lint -f FILE|DIR|-",
		Short: "Show what admission would reject, warn about and fill in",
		Long: `Show what Curfew's admission would reject, warn about and fill in for the
objects of manifests. It needs no cluster.

All files are judged together, in any order. Namespaces, LifecyclePolicies,
KindProfiles and training runtimes among them apply to the other objects, as if
all were applied; anything else in the cluster is unknown. LifecyclePolicies and
KindProfiles are checked themselves, schema and expressions. A TTL inside a pod
template is found as well, which the API server would silently drop.

In a directory lint skips what is not meant for the API server, and counts it:
Helm templates, Kustomizations and their patches, and what has no apiVersion and
kind. It also leaves out what --ignore or the file .curfewlintignore in that
directory names, with patterns as in .gitignore.

With --server, the API server judges each object by a server-side dry run:
the cluster's own namespaces, policies and settings apply, and its other
admission too. Nothing is changed. The manifests are not context for each other.
Where the API server does not call Curfew's webhook, the command fails.

Exit status: 0 nothing would be rejected, 1 something would be (or, with
--warnings-as-errors, warned about), 2 usage.`,
		Example: `  kubectl curfew lint -f manifests/ -R
  kubectl kustomize . | kubectl curfew lint -f -
  kubectl curfew lint -f job.yaml -o wide     # what is filled in, too
  kubectl curfew lint -f job.yaml -o github   # annotations in a pull request
  kubectl curfew lint -f job.yaml --server    # by the policies of the cluster`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q stands alone: put -f before it", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := options.validate(cmd.Flags())
			if err != nil {
				return err
			}
			return options.run(cmd.Context(), print, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	options.addFlags(command)
	return command
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

// judge judges one document.
type judge func(ctx context.Context, document *lint.Document) (*lint.Result, error)

func (o *lintOptions) run(ctx context.Context, print printFunc, in io.Reader, out, diagnostics io.Writer) error {
	files, err := listFiles(o.files, o.recursive, o.ignored, in)
	if err != nil {
		return err
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	from := newManifests(files)
	var judge judge
	if o.server {
		judge, err = o.asServer(ctx)
	} else {
		judge, err = o.asLinter(ctx, from, progress)
	}
	if err != nil {
		return err
	}
	report := lintReport{Report: lint.NewReport(nil)}
	if err := from.each(ctx, progress, func(document *lint.Document) error {
		result, err := judge(ctx, document)
		if err == nil {
			report.Add(result)
		}
		return err
	}); err != nil {
		return err
	}
	progress.done()
	report.Unreadable(from.unreadable...)
	report.skipped = from.skipped
	if report.Objects+len(from.unreadable) == 0 {
		// A pipe whose first command failed must not look like clean manifests.
		none := "there is no manifest in what -f names: give at least one"
		if skipped := report.skippedText(); skipped != "" {
			none += "; " + skipped
		}
		return errors.New(none)
	}
	if err := o.write(&report, print, out, diagnostics); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if !report.Allowed || (o.warningsAsErrors && len(report.Findings) > 0) {
		return errBadNews
	}
	return nil
}

// asLinter judges by the manifests alone, which it reads once for the context of each.
func (o *lintOptions) asLinter(ctx context.Context, from *manifests, progress *progress) (judge, error) {
	warnBelow, err := policy.ParseDuration(o.warnBelow)
	if err != nil {
		return nil, err
	}
	own, schemas, err := builtin()
	if err != nil {
		return nil, err
	}
	linter, err := lint.NewLinter(ctx, lint.Options{
		Source:          platform.Offline{Platform: own},
		Schemas:         schemas,
		Namespace:       o.namespace,
		Now:             o.now(),
		AnnotationsOnly: o.nativeTTL == "off",
		Rules:           rules.Options{WarnBelow: warnBelow, StrictLabels: o.strictLabels, WarnExpiredLabels: o.expiredLabels == "warn", KyvernoLabel: o.kyvernoLabel, Controller: policy.Surroundings{Protect: policy.DefaultProtect()}},
	})
	if err != nil {
		return nil, err
	}
	return linter.Judge, addAll(ctx, linter, from, progress)
}

// addAll makes all manifests context for each other.
func addAll(ctx context.Context, linter *lint.Linter, from *manifests, progress *progress) error {
	err := from.each(ctx, progress, func(document *lint.Document) error { return linter.Add(ctx, document) })
	if err != nil || !linter.Added() {
		return err
	}
	return from.each(ctx, progress, func(document *lint.Document) error {
		linter.AddRuntime(document)
		return nil
	})
}

// lintData is the answer for programs.
type lintData struct {
	list[lint.Finding]
	Allowed  bool           `json:"allowed" doc:"nothing would be rejected"`
	Objects  int            `json:"objects" doc:"how many objects were judged"`
	Defaults []lint.Default `json:"defaults" doc:"what would be filled in"`
	Skipped  []skipped      `json:"skipped,omitempty" doc:"files and documents in directories that are not meant for the API server"`
}

func (o *lintOptions) write(report *lintReport, print printFunc, out, diagnostics io.Writer) error {
	switch {
	case print != nil:
		return print(printed{document: lintData{listOf("FindingList", o.now(), report.Findings, nil), report.Allowed, report.Objects, report.Defaults, report.skipped}}, out)
	case o.output.format == "github":
		return writeGitHub(report.Report, out)
	default:
		return writeFindings(report, o.output.format == "wide", printers.PrintOptions{NoHeaders: o.output.noHeaders}, out, diagnostics)
	}
}
