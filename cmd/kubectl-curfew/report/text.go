package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
)

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
	options := printers.PrintOptions{NoHeaders: noHeaders}
	var tables []*metav1.Table
	if counts := a.counts(); len(counts) > 0 {
		table := console.NewTable("KIND", "NAMESPACE", "RESULT", "COUNT")
		for _, each := range counts {
			console.AddRow(table, nil, KindText(each.Group, each.Kind), console.OrDash(each.Namespace), each.Result, strconv.FormatInt(each.Count, 10))
		}
		tables = append(tables, table)
	}
	if a.last != nil && len(a.last.Skipped) > 0 {
		table := console.NewTable("SKIPPED", "COUNT", "FOR EXAMPLE")
		for _, each := range a.last.Skipped {
			console.AddRow(table, nil, each.Reason, strconv.FormatInt(each.Count, 10), each.Message)
		}
		tables = append(tables, table)
	}
	if wide && len(a.items()) > 0 {
		table := console.NewTable("KIND", "NAMESPACE", "NAME", "RESULT", "REASON")
		for _, each := range a.items() {
			console.AddRow(table, nil, KindText(each.Group, each.Kind), console.OrDash(each.Namespace), each.Name, resultText(each), console.OrDash(each.Message))
		}
		tables = append(tables, table)
	}
	for _, table := range tables {
		fmt.Fprintln(out)
		if err := console.PrintTable(table, options, out); err != nil {
			return err
		}
	}
	if others := slices.DeleteFunc(slices.Clone(a.Runs), func(run string) bool { return run == a.run }); len(others) > 0 {
		fmt.Fprintf(out, "\nOther runs with a report: %s\n", strings.Join(others, ", "))
	}
	return nil
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
	out += fmt.Sprintf("; %s %d of %d objects", verb, done, a.last.Listed)
	if stalled := Condition(a.policy, v1alpha1.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
		out += fmt.Sprintf("\n%s: %s", stalled.Reason, console.OneLine(stalled.Message))
	}
	return out
}

// items are the objects of the run whose names are kept.
func (a *reportAnswer) items() []*v1alpha1.CleanupItem {
	var out []*v1alpha1.CleanupItem
	for _, page := range a.pages {
		for i := range page.Objects {
			out = append(out, &page.Objects[i])
		}
	}
	return out
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
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Result, b.Result))
	})
	return out
}

// resultText is the result of one object. It is not known while its batch runs.
func resultText(item *v1alpha1.CleanupItem) string { return cmp.Or(string(item.Result), "Pending") }

func KindText(group, kind string) string {
	if group == "" {
		return kind
	}
	return kind + "." + group
}

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

func orNone(texts []string) string { return cmp.Or(strings.Join(texts, ", "), "none") }
