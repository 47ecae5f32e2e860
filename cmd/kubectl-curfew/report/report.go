// Package report prints the runs of a cleanup policy that the controller recorded.
package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
)

// reportOptions are the flags of report.
type reportOptions struct {
	*session.Connection
	run string
}

// Command is kubectl curfew report.
func Command(env console.Environment) *cobra.Command {
	options := &reportOptions{Connection: session.NewConnection(env, "text", "wide")}
	options.Output.Nameless = true // Most of the objects are gone.
	command := &cobra.Command{
		Use:   "report (NAME | KIND/NAME) [flags]",
		Short: "Show what the runs of a cleanup policy deleted",
		Long: `Show what the last run of a cleanup policy deleted, or with dryRun would delete:
numbers by kind and namespace, what was skipped and why, and with -o wide each
object with its result.

NAME is a CleanupPolicy of the namespace or a ClusterCleanupPolicy. Curfew keeps
the reports of the last five runs, and of a run the names of up to 10,000
objects.`,
		Example: `  # What did the last run delete?
  kubectl curfew report nightly

  # Each object, of an earlier run
  kubectl curfew report nightly --run 20261223-0200-5f0f4c1e -o wide

  # What could not be deleted, and why
  kubectl curfew report nightly -o jsonpath='{range .items[?(@.result=="Failed")]}{.object.name}: {.message}{"\n"}{end}'`,
		Args:              OnePolicy,
		RunE:              options.Runs(options.execute),
		ValidArgsFunction: options.CompletePolicies(),
	}
	command.Flags().StringVar(&options.run, "run", "", "id of the run, by default the last one")
	options.AddTo(command, nil)
	return command
}

// OnePolicy is the argument of commands about one cleanup policy.
func OnePolicy(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one cleanup policy: NAME, cleanuppolicy/NAME or clustercleanuppolicy/NAME")
	}
	return nil
}

func (o *reportOptions) execute(ctx context.Context, call *session.Call) error {
	w, policy, err := call.CleanupPolicy(ctx, "reading the reports of %s")
	if err != nil {
		return err
	}
	answer, err := Read(ctx, w, policy, o.run, call.Now)
	if err != nil {
		return err
	}
	call.Progress.Done()
	if call.Print != nil {
		return call.Print(console.Printed{Document: answer.data(call.Now)}, call.Out)
	}
	return answer.Print(call.Out, call.Now, o.Output.Format == "wide", o.Output.NoHeaders)
}

// Read reads the report of a run, by default of the last one.
func Read(ctx context.Context, w *world.World, policy *world.CleanupPolicy, run string, now time.Time) (*reportAnswer, error) {
	pages, err := w.CleanupReports(ctx, policy)
	if err != nil {
		return nil, err
	}
	answer := &reportAnswer{policy: policy, run: run}
	last := policy.Status.LastRun
	if run == "" && last != nil {
		answer.run = last.ID
	}
	for _, page := range pages {
		if len(answer.Runs) == 0 || answer.Runs[len(answer.Runs)-1] != page.Run {
			answer.Runs = append(answer.Runs, page.Run)
		}
		if page.Run == answer.run {
			answer.pages = append(answer.pages, page)
		}
	}
	if last != nil && last.ID == answer.run {
		answer.last = last
	}
	switch {
	case answer.run == "":
		return nil, fmt.Errorf("%s has not run yet%s", policy, NextRun(policy, now))
	case answer.last == nil && len(answer.pages) == 0:
		return nil, fmt.Errorf("%s has no report of run %q: runs with one are %s", policy, answer.run, cmp.Or(strings.Join(answer.Runs, ", "), "none"))
	}
	return answer, nil
}

// Data is a run of a cleanup policy for programs.
type Data struct {
	console.List[reportItem]
	Policy  console.ObjectData `json:"policy" doc:"the cleanup policy"`
	Run     string             `json:"run" doc:"id of the run"`
	LastRun *runData           `json:"lastRun,omitempty" doc:"the run as a whole, if it is the last one"`
	Counts  []CountData        `json:"counts,omitempty" doc:"objects by kind, namespace and result, those without a name in items included"`
	Skipped []SkippedData      `json:"skipped,omitempty" doc:"objects of the last run that were kept although they match"`
	Runs    []string           `json:"runs,omitempty" doc:"ids of all runs that have a report"`
}

// reportItem is an object that the run was about to delete.
type reportItem struct {
	Object console.ObjectData `json:"object"`
	// Deleted, Gone (another client deleted it), Kept, Failed, Unknown (the API server did not
	// answer), WouldDelete or Pending
	Result  string `json:"result"`
	Message string `json:"message,omitempty" doc:"why it was not deleted"`
}

type runData struct {
	Phase     string     `json:"phase" doc:"Running, Completed, Stalled or Failed"`
	DryRun    bool       `json:"dryRun,omitempty" doc:"nothing was deleted"`
	Scheduled time.Time  `json:"scheduledTime"`
	Started   time.Time  `json:"startTime"`
	Completed *time.Time `json:"completionTime,omitempty"`
	Listed    int64      `json:"listed" doc:"objects that were looked at"`
	Matched   int64      `json:"matched" doc:"objects to be deleted"`
	Deleted   int64      `json:"deleted"`
	Ignored   []string   `json:"ignoredKinds,omitempty" doc:"kinds that its lookups did not list"`
}

type CountData struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Result    string `json:"result"`
	Count     int64  `json:"count"`
}

type SkippedData struct {
	Reason  string `json:"reason"`
	Count   int64  `json:"count"`
	Message string `json:"message,omitempty" doc:"about the first of them"`
}

func (a *reportAnswer) data(now time.Time) Data {
	var items []reportItem
	for _, each := range a.items() {
		version := schema.GroupVersion{Group: each.Group, Version: each.Version}
		object := console.ObjectOf(version.String(), each.Kind, each.Namespace, each.Name, string(each.UID))
		items = append(items, reportItem{object, resultText(each), each.Message})
	}
	out := Data{
		List: console.ListOf("CleanupRunList", now, items, nil), Run: a.run, Counts: a.counts(), Runs: a.Runs,
		Policy: console.ObjectOf("curfew.dev/v1alpha1", a.policy.Kind, a.policy.Namespace, a.policy.Name, string(a.policy.UID)),
	}
	if last := a.last; last != nil {
		out.LastRun = &runData{
			Phase: string(last.Phase), DryRun: last.DryRun, Listed: last.Listed, Matched: last.Matched, Deleted: last.Deleted,
			Scheduled: last.ScheduledTime.In(now.Location()), Started: last.StartTime.In(now.Location()),
			Ignored: ignoredKinds(last),
		}
		if last.CompletionTime != nil {
			out.LastRun.Completed = console.TimeData(last.CompletionTime.Time, now)
		}
		out.Skipped = SkippedOf(last.Skipped)
	}
	return out
}

// reportAnswer is one run of a cleanup policy.
type reportAnswer struct {
	policy *world.CleanupPolicy
	run    string
	// last is the run as the policy's status shows it; nil for an earlier one.
	last  *v1alpha1.CleanupRun
	pages []*v1alpha1.CleanupReport
	// Runs are the ids of all runs that have a report, the last one last.
	Runs []string
}

// Print writes the run for people; wide lists each object.
func (a *reportAnswer) Print(out io.Writer, now time.Time, wide, noHeaders bool) error {
	fmt.Fprintln(out, a.title(now))
	counts := console.NewTable("KIND", "NAMESPACE", "RESULT", "COUNT")
	for _, each := range a.counts() {
		kind := schema.GroupKind{Group: each.Group, Kind: each.Kind}
		console.AddRow(counts, nil, kind.String(), console.OrDash(each.Namespace), each.Result, strconv.FormatInt(each.Count, 10))
	}
	var skipped []v1alpha1.SkipCount
	if a.last != nil {
		skipped = a.last.Skipped
	}
	objects := ObjectTable()
	if wide {
		for _, each := range a.items() {
			AddObject(objects, schema.GroupKind{Group: each.Group, Kind: each.Kind}, each.Namespace, each.Name, resultText(each), each.Message)
		}
	}
	if err := PrintTables(out, noHeaders, counts, skipped, objects); err != nil {
		return err
	}
	if others := slices.DeleteFunc(slices.Clone(a.Runs), func(run string) bool { return run == a.run }); len(others) > 0 {
		fmt.Fprintf(out, "\nOther runs with a report: %s\n", strings.Join(others, ", "))
	}
	return nil
}

// ObjectTable has a row for each object of a run.
func ObjectTable() *metav1.Table {
	return console.NewTable("KIND", "NAMESPACE", "NAME", "RESULT", "REASON")
}

// AddObject adds the row of an object.
func AddObject(table *metav1.Table, kind schema.GroupKind, namespace, name, result, message string) {
	console.AddRow(table, nil, kind.String(), console.OrDash(namespace), name, result, console.OrDash(message))
}

// PrintTables writes the tables of a run that have rows: the numbers of objects, those that were
// skipped, and each object.
func PrintTables(out io.Writer, noHeaders bool, counts *metav1.Table, skipped []v1alpha1.SkipCount,
	objects *metav1.Table) error {
	kept := console.NewTable("SKIPPED", "COUNT", "FOR EXAMPLE")
	for _, each := range skipped {
		console.AddRow(kept, nil, each.Reason, strconv.FormatInt(each.Count, 10), each.Message)
	}
	for _, table := range []*metav1.Table{counts, kept, objects} {
		if len(table.Rows) == 0 {
			continue
		}
		fmt.Fprintln(out)
		if err := console.PrintTable(table, printers.PrintOptions{NoHeaders: noHeaders}, out); err != nil {
			return err
		}
	}
	return nil
}

// SkippedOf are the skipped objects of a run for programs.
func SkippedOf(all []v1alpha1.SkipCount) []SkippedData {
	return console.Map(all, func(s v1alpha1.SkipCount) SkippedData { return SkippedData{s.Reason, s.Count, s.Message} })
}

// title sums up the run.
func (a *reportAnswer) title(now time.Time) string {
	out := fmt.Sprintf("%s, run %s", a.policy, a.run)
	if a.last == nil {
		return out
	}
	out += fmt.Sprintf(", started %s: ", console.Instant(a.last.StartTime.Time, now.Location()))
	switch {
	case a.last.Phase == v1alpha1.RunRunning:
		out += "is running"
	case a.last.DryRun:
		out += "a dry run"
	default:
		out += strings.ToLower(string(a.last.Phase))
	}
	verb, done := "deleted", a.last.Deleted
	if a.last.DryRun {
		verb, done = "would delete", a.last.Matched
	}
	out += fmt.Sprintf("; %s %d of %s", verb, done, console.Count(a.last.Listed, "object"))
	if len(a.last.IgnoredKinds) > 0 {
		out += "\nLookups ignored objects of " + strings.Join(ignoredKinds(a.last), ", ")
	}
	if stalled := Condition(a.policy, v1alpha1.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
		out += fmt.Sprintf("\n%s: %s", stalled.Reason, console.OneLine(stalled.Message))
	}
	return out
}

// ignoredKinds are the kinds that the lookups of a run did not list.
func ignoredKinds(run *v1alpha1.CleanupRun) []string {
	return console.Map(run.IgnoredKinds, func(kind v1alpha1.GroupKind) string {
		return schema.GroupKind{Group: kind.Group, Kind: kind.Kind}.String()
	})
}

// items are the objects of the run whose names are kept. A run may decide again about an object
// that it has kept for now: the last decision counts.
func (a *reportAnswer) items() []*v1alpha1.CleanupItem {
	var out []*v1alpha1.CleanupItem
	last := map[types.UID]*v1alpha1.CleanupItem{}
	for _, page := range a.pages {
		for i := range page.Objects {
			out, last[page.Objects[i].UID] = append(out, &page.Objects[i]), &page.Objects[i]
		}
	}
	return slices.DeleteFunc(out, func(c *v1alpha1.CleanupItem) bool { return c.Result == v1alpha1.ItemKept && last[c.UID] != c })
}

// counts are the numbers of objects by kind, namespace and result.
func (a *reportAnswer) counts() []CountData {
	type key struct{ group, kind, namespace, result string }
	counts := map[key]int64{}
	for _, each := range a.items() {
		counts[key{each.Group, each.Kind, each.Namespace, resultText(each)}]++
	}
	for _, page := range a.pages {
		result := string(v1alpha1.ItemDeleted)
		if page.DryRun {
			result = string(v1alpha1.ItemWouldDelete)
		}
		for _, each := range page.Summary {
			counts[key{each.Group, each.Kind, each.Namespace, result}] += each.Count
		}
	}
	var out []CountData
	for k, count := range counts {
		out = append(out, CountData{k.group, k.kind, k.namespace, k.result, count})
	}
	slices.SortFunc(out, func(a, b CountData) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Result, b.Result))
	})
	return out
}

// resultText is the result of one object. It is not known while its batch runs.
func resultText(item *v1alpha1.CleanupItem) string { return cmp.Or(string(item.Result), "Pending") }

func Condition(policy *world.CleanupPolicy, kind string) *metav1.Condition {
	return meta.FindStatusCondition(policy.Status.Conditions, kind)
}

// NextRun says when a policy runs next, as far as Curfew has said so.
func NextRun(policy *world.CleanupPolicy, now time.Time) string {
	switch next := policy.Status.NextScheduleTime; {
	case policy.Spec.Suspend:
		return ": it is suspended"
	case next == nil:
		return ""
	default:
		return ": its next run is due at " + console.Instant(next.Time, now.Location())
	}
}
