package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
)

// lintOptions are the flags of lint, each documented where it is added.
type lintOptions struct {
	*session.Connection
	files            []string
	recursive        bool
	ignored          []string
	server           bool
	namespace        string
	warningsAsErrors bool
	warnBelow        string
	strictLabels     bool
	expiredLabels    string
	kyvernoLabel     bool
	nativeTTL        string
	// cleanupInterval is --cleanup-min-interval.
	cleanupInterval time.Duration
}

// Command is kubectl curfew lint.
func Command(env console.Environment) *cobra.Command {
	options := lintOptions{warnBelow: "60s", expiredLabels: "deny", nativeTTL: "on", cleanupInterval: 5 * time.Minute}
	options.Connection = session.NewConnection(env, "table", "wide", "github")
	options.Output.Nameless = true // Findings have no names.
	command := &cobra.Command{
		Use:   "lint -f FILE|DIR|-",
		Short: "Show what admission would reject, warn about and fill in",
		Long: `Show what Curfew's admission would reject, warn about and fill in for the
objects of manifests. It needs no cluster.

All files are judged together, in any order. Namespaces, LifecyclePolicies,
KindProfiles and training runtimes among them apply to the other objects;
anything else in the cluster is unknown. Policies and profiles are checked
themselves. A TTL inside a pod template, which the API server would silently
drop, is found too.

In a directory lint skips and counts Helm templates, Kustomizations and their
patches, and documents without apiVersion and kind. It also leaves out what
--ignore or the file .curfewlintignore in that directory names.

With --server, the API server judges each object alone, by a server-side dry
run: the cluster's own namespaces and policies apply, and its other admission
too. Where it does not call Curfew's webhook, the command fails.

Exit status: 0 nothing would be rejected, 1 something would be (or, with
--warnings-as-errors, warned about), 2 usage.`,
		Example: `  kubectl curfew lint -f manifests/ -R
  kubectl kustomize . | kubectl curfew lint -f -
  kubectl curfew lint -f job.yaml -o wide     # also the values that Curfew fills in
  kubectl curfew lint -f job.yaml -o github   # annotations in a pull request
  kubectl curfew lint -f job.yaml --server    # by the policies of the cluster`,
		Args:    folders.NoArguments,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return options.validate(cmd.Flags()) },
		RunE:    options.Runs(options.run),
	}
	options.addFlags(command)
	return command
}

// judge judges one document.
type judge func(ctx context.Context, document *lint.Document) (*lint.Result, error)

func (o *lintOptions) run(ctx context.Context, call *session.Call) error {
	files, err := folders.ListFiles(o.files, o.recursive, o.ignored, call.In)
	if err != nil {
		return err
	}
	from := folders.NewManifests(files)
	var judge judge
	if o.server {
		judge, err = o.asServer(ctx)
	} else {
		judge, err = o.asLinter(ctx, from, call.Progress)
	}
	if err != nil {
		return err
	}
	report := lintReport{Report: lint.NewReport(nil)}
	if err := from.Each(ctx, call.Progress, func(document *lint.Document) error {
		result, err := judge(ctx, document)
		if err == nil {
			report.Add(result)
		}
		return err
	}); err != nil {
		return err
	}
	call.Progress.Done()
	report.Unreadable(from.Unreadable...)
	report.skipped = from.Skipped
	if report.Objects+len(from.Unreadable) == 0 {
		// A pipe whose first command failed must not look like clean manifests.
		none := "there is no manifest in what -f names: give at least one"
		if skipped := report.skippedText(); skipped != "" {
			none += "; " + skipped
		}
		return errors.New(none)
	}
	if err := o.write(&report, call); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if !report.Allowed || (o.warningsAsErrors && len(report.Findings) > 0) {
		return console.ErrBadNews
	}
	return nil
}

// asLinter judges by the manifests alone, which it reads once for the context of each.
func (o *lintOptions) asLinter(ctx context.Context, from *folders.Manifests, progress *console.Progress) (judge, error) {
	warnBelow, err := lifetime.ParseDuration(o.warnBelow)
	if err != nil {
		return nil, err
	}
	own, schemas, err := session.Builtin()
	if err != nil {
		return nil, err
	}
	linter, err := lint.NewLinter(ctx, lint.Options{
		Source: platform.Offline{Platform: own.Snapshot()}, Schemas: schemas,
		Namespace: o.namespace, Now: o.Now(), AnnotationsOnly: o.nativeTTL == "off", CleanupInterval: o.cleanupInterval,
		Rules: rules.Options{
			WarnBelow: warnBelow, StrictLabels: o.strictLabels, WarnExpiredLabels: o.expiredLabels == "warn",
			KyvernoLabel: o.kyvernoLabel, Controller: judging.Surroundings{Protect: judging.DefaultProtect()},
		},
	})
	if err != nil {
		return nil, err
	}
	return linter.Judge, session.AddAll(ctx, linter, from, progress)
}

// Data is the answer for programs.
type Data struct {
	console.List[lint.Finding]
	Allowed  bool              `json:"allowed" doc:"nothing would be rejected"`
	Objects  int               `json:"objects" doc:"how many objects were judged"`
	Defaults []lint.Default    `json:"defaults" doc:"what would be filled in"`
	Skipped  []folders.Skipped `json:"skipped,omitempty" doc:"files and documents in directories that are not meant for the API server"`
}

func (o *lintOptions) write(report *lintReport, call *session.Call) error {
	switch {
	case call.Print != nil:
		list := console.ListOf("FindingList", o.Now(), report.Findings, nil)
		return call.Print(console.Printed{Document: Data{list, report.Allowed, report.Objects, report.Defaults, report.skipped}}, call.Out)
	case o.Output.Format == "github":
		return writeGitHub(report.Report, call.Out)
	default:
		return writeFindings(report, o.Output.Format == "wide", printers.PrintOptions{NoHeaders: o.Output.NoHeaders}, call.Out, call.Diagnostics)
	}
}

// offlineFlags are settings of the webhook, which --server leaves to that.
var offlineFlags = []string{"warn-below", "strict-labels", "expired-labels", "kyverno-label", "native-ttl", "cleanup-min-interval"}

func (o *lintOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	names := clientcmd.RecommendedConfigOverrideFlags("")
	// -n is lint's own, and --server no address.
	names.ContextOverrideFlags.Namespace, names.ClusterOverrideFlags.APIServer = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	o.Bind(flags, names)
	flags.StringArrayVarP(&o.files, "filename", "f", nil,
		"file or directory with manifests, or - for standard input; may be given more than once")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "read the directories below as well")
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"namespace of manifests that name none; without it default, with --server that of the context")
	flags.StringArrayVar(&o.ignored, "ignore", nil,
		"pattern of files to leave out in directories, as in .gitignore, such as charts/ or values-*.yaml; may be given more than once")
	flags.BoolVar(&o.server, "server", false, "ask the API server, by a server-side dry run, instead of judging by the manifests alone")
	o.Output.AddFlags(command)
	flags.BoolVar(&o.warningsAsErrors, "warnings-as-errors", false, "exit with 1 on warnings, too")
	flags.StringVar(&o.warnBelow, "warn-below", o.warnBelow, "TTLs under this are warned about, as with the webhook's flag")
	flags.BoolVar(&o.strictLabels, "strict-labels", false, "deny a TTL label that cannot be read, as with the webhook's flag")
	flags.StringVar(&o.expiredLabels, "expired-labels", o.expiredLabels,
		"deny, or warn about, a TTL label that is expired when it is set, as with the webhook's flag")
	flags.BoolVar(&o.kyvernoLabel, "kyverno-label", false, "check label cleanup.kyverno.io/ttl as curfew.dev/ttl, as with the webhook's flag")
	flags.StringVar(&o.nativeTTL, "native-ttl", o.nativeTTL,
		"on: constant default TTLs go into the native field; off: into annotations, as with the webhook's flag")
	flags.DurationVar(&o.cleanupInterval, "cleanup-min-interval", o.cleanupInterval,
		"shortest time between two runs of a cleanup policy, as with the webhook's flag")
	session.CompleteFlags(command, map[string]cobra.CompletionFunc{
		"output":         cobra.FixedCompletions(o.Output.Formats(), session.NoFiles),
		"native-ttl":     cobra.FixedCompletions([]string{"off", "on"}, session.NoFiles),
		"expired-labels": cobra.FixedCompletions([]string{"deny", "warn"}, session.NoFiles),
	})
}

// validate names every flag that cannot be used, with its value and the fix.
func (o *lintOptions) validate(flags *pflag.FlagSet) error {
	errs := []error{folders.Given(o.files)}
	for _, name := range offlineFlags {
		if o.server && flags.Changed(name) {
			errs = append(errs, fmt.Errorf("--%s: with --server the webhook's own setting applies: leave it out", name))
		}
	}
	if problems := validation.IsDNS1123Label(o.namespace); o.namespace != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace=%s: %s", o.namespace, strings.Join(problems, "; ")))
	}
	if _, err := lifetime.ParseDuration(o.warnBelow); err != nil {
		errs = append(errs, fmt.Errorf("--warn-below=%s: %w", o.warnBelow, err))
	}
	if o.nativeTTL != "on" && o.nativeTTL != "off" {
		errs = append(errs, fmt.Errorf("--native-ttl=%s: give on or off", o.nativeTTL))
	}
	if o.expiredLabels != "deny" && o.expiredLabels != "warn" {
		errs = append(errs, fmt.Errorf("--expired-labels=%s: give deny or warn", o.expiredLabels))
	}
	return errors.Join(errs...)
}

// writeGitHub writes findings as workflow commands of GitHub Actions, which shows them as
// annotations.
func writeGitHub(report *lint.Report, out io.Writer) error {
	for i := range report.Findings {
		finding := &report.Findings[i]
		command := "warning"
		if finding.Severity == rules.Deny {
			command = "error"
		}
		var properties []string
		if finding.File != "" {
			properties = append(properties, "file="+property(finding.File))
			if finding.Line > 0 {
				properties = append(properties, "line="+strconv.Itoa(finding.Line))
			}
		}
		properties = append(properties, "title="+property("curfew "+finding.Rule))
		message := finding.Finding.String()
		if finding.Object.Kind != "" {
			message = finding.Object.String() + ": " + message
		}
		if _, err := fmt.Fprintf(out, "::%s %s::%s\n", command, strings.Join(properties, ","), commandData.Replace(message)); err != nil {
			return err
		}
	}
	return nil
}

// Workflow commands need these escapes (actions/toolkit, packages/core, command.ts).
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func property(text string) string { return commandProperty.Replace(text) }

// lintReport is a report with the files and documents that lint skipped.
type lintReport struct {
	*lint.Report
	skipped []folders.Skipped
}

// skippedText counts the skipped files and documents by reason; "" for none.
func (r *lintReport) skippedText() string {
	counts := map[string]int{}
	for _, each := range r.skipped {
		counts[each.Reason]++
	}
	if len(counts) == 0 {
		return ""
	}
	parts := console.Map(slices.Sorted(maps.Keys(counts)), func(reason string) string { return fmt.Sprintf("%s %d", reason, counts[reason]) })
	return fmt.Sprintf("%d skipped (%s)", len(r.skipped), strings.Join(parts, ", "))
}

// writeFindings writes a row for each finding, if wide one for each default and each skipped file
// too, and a summary to diagnostics.
func writeFindings(report *lintReport, wide bool, options printers.PrintOptions, out, diagnostics io.Writer) error {
	table := console.NewTable("WHERE", "SEVERITY", "OBJECT", "RULE", "MESSAGE")
	add := func(file string, line int, cells ...string) {
		console.AddRow(table, nil, append([]string{console.Where(file, line)}, cells...)...)
	}
	for _, finding := range report.Findings {
		add(finding.File, finding.Line, string(finding.Severity), objectName(finding.Object), finding.Rule, finding.Finding.String())
	}
	if wide {
		for _, filled := range report.Defaults {
			add(filled.File, filled.Line, "default", objectName(filled.Object), "-", filled.String())
		}
		for _, each := range report.skipped {
			add(each.File, each.Line, "skipped", "-", "-", each.Reason)
		}
	}
	if err := console.PrintTable(table, options, out); err != nil {
		return err
	}
	counts := []string{
		console.Count(report.Count(rules.Deny), "error"), console.Count(report.Count(rules.Warn), "warning"),
		console.Count(len(report.Defaults), "default"),
	}
	if skipped := report.skippedText(); skipped != "" {
		counts = append(counts, skipped)
	}
	_, err := fmt.Fprintf(diagnostics, "%s: %s\n", console.Count(report.Objects, "object"), strings.Join(counts, ", "))
	return err
}

// objectName is a dash for a document that could not be read.
func objectName(object lint.Ref) string {
	if object.Kind == "" {
		return "-"
	}
	return object.String()
}
