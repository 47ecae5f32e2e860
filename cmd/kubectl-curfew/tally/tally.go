// Package tally prints the counts of PodTallies.
package tally

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

// tallyOptions are the flags of tally.
type tallyOptions struct {
	*session.Connection
	everywhere bool
}

// Command is kubectl curfew tally.
func Command(env console.Environment) *cobra.Command {
	options := &tallyOptions{Connection: session.NewConnection(env, "table", "wide")}
	command := &cobra.Command{
		Use:   "tally [NAME] [flags]",
		Short: "Show what PodTallies have counted, and what they wait for",
		Long: `Show how many Pods each PodTally has counted: those that have not finished, and
those that succeeded and failed, including those that were deleted since.
UNCOUNTED are finished Pods that are being counted; Curfew keeps them meanwhile.

PER HOUR is the average since the tally began to count. With -o wide also since
when it counts, how long counted Pods stay, and its conditions.`,
		Example: `  # What does Curfew count in namespace ci?
  kubectl curfew tally -n ci

  # In all namespaces, with conditions
  kubectl curfew tally -A -o wide

  # How many have failed?
  kubectl curfew tally prow-builds -n ci -o jsonpath='{.items[0].failed}'`,
		Args:              cobra.MaximumNArgs(1),
		RunE:              options.Runs(options.run),
		ValidArgsFunction: completeTallies(options.Connection),
	}
	command.Flags().BoolVarP(&options.everywhere, "all-namespaces", "A", false, "all namespaces")
	options.AddTo(command, nil)
	return command
}

func (o *tallyOptions) run(ctx context.Context, call *session.Call) error {
	name := strings.Join(call.Args, "")
	if o.everywhere && name != "" {
		return errors.New("a PodTally cannot be named across all namespaces: give one namespace with -n")
	}
	w, namespace, err := call.World(ctx, "reading PodTallies")
	if err != nil {
		return err
	}
	if err := w.Installed(); err != nil {
		return err
	}
	where := fmt.Sprintf("in namespace %q", namespace)
	if o.everywhere {
		namespace, where = "", "in any namespace"
	}
	tallies, err := read(ctx, w, namespace, name)
	if err != nil {
		return err
	}
	answer := &tallyAnswer{tallies: tallies, now: call.Now, everywhere: o.everywhere, wide: o.Output.Format == "wide"}
	call.Progress.Done()
	switch {
	case call.Print != nil:
		return call.Print(answer.printed(w.Notes()), call.Out)
	case len(tallies) == 0:
		_, err = fmt.Fprintf(call.Diagnostics, "There is no PodTally %s.\n", where)
		return err
	}
	err = answer.table(o.Output.NoHeaders, call.Out)
	console.PrintNotes(w.Notes(), call.Diagnostics)
	return err
}

// completeTallies suggests the PodTallies of the namespace.
func completeTallies(c *session.Connection) cobra.CompletionFunc {
	return c.CompleteFrom(func(ctx context.Context, w *world.World, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		namespace, err := c.Namespace()
		if err != nil || len(args) > 0 {
			return nil, session.NoFiles
		}
		names, _ := w.NamesOf(ctx, v1alpha1.PodTallies, namespace) // A shell has no place for an error.
		return names, session.NoFiles
	})
}

// tallyAnswer is the answer of tally.
type tallyAnswer struct {
	tallies          []*podTally
	now              time.Time
	everywhere, wide bool
}

// Item is a PodTally for programs.
type Item struct {
	Object     console.ObjectData `json:"object"`
	Active     int64              `json:"active" doc:"Pods that have not finished"`
	Succeeded  int64              `json:"succeeded" doc:"including those that were deleted since"`
	Failed     int64              `json:"failed" doc:"including those that were deleted since"`
	Uncounted  int                `json:"uncounted" doc:"finished Pods that are being counted"`
	Oldest     *time.Time         `json:"oldestUncounted,omitempty" doc:"when the first of these finished, if that is known"`
	Started    *time.Time         `json:"startTime,omitempty" doc:"when Curfew began to count"`
	PerHour    float64            `json:"perHour" doc:"finished Pods an hour since then, on average"`
	TTL        string             `json:"ttlAfterCounted,omitempty"`
	Conditions []conditionData    `json:"conditions,omitempty"`
}

type conditionData struct {
	Type    string `json:"type" doc:"Ready, Conflicting or Releasing"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

func (a *tallyAnswer) printed(notes []string) console.Printed {
	var items []Item
	var objects []console.ObjectData
	for _, each := range a.tallies {
		status := &each.Status
		item := Item{
			Object: console.ObjectOf(v1alpha1.GroupVersion.String(), "PodTally", each.Namespace, each.Name, string(each.UID)),
			Active: status.Active, Succeeded: status.Succeeded, Failed: status.Failed, Uncounted: len(each.uncounted()), PerHour: each.PerHour(a.now),
			Oldest: console.TimeData(each.Oldest, a.now), TTL: string(ptr.Deref(each.Spec.TTLAfterCounted, "")),
			Conditions: console.Map(status.Conditions, func(condition metav1.Condition) conditionData {
				return conditionData{condition.Type, string(condition.Status), condition.Reason, condition.Message}
			}),
		}
		if status.StartTime != nil {
			item.Started = console.TimeData(status.StartTime.Time, a.now)
		}
		items, objects = append(items, item), append(objects, item.Object)
	}
	return console.Printed{Document: console.ListOf("TallyList", a.now, items, notes), Objects: objects}
}

func (a *tallyAnswer) table(noHeaders bool, out io.Writer) error {
	header := []string{"NAME", "ACTIVE", "SUCCEEDED", "FAILED", "UNCOUNTED", "OLDEST", "PER HOUR", "STATE"}
	if a.everywhere {
		header = append([]string{"NAMESPACE"}, header...)
	}
	if a.wide {
		header = append(header, "SINCE", "TTL", "MESSAGE")
	}
	table := console.NewTable(header...)
	for _, each := range a.tallies {
		console.AddRow(table, each.Labels, a.row(each)...)
	}
	return console.PrintTable(table, printers.PrintOptions{NoHeaders: noHeaders}, out)
}

func (a *tallyAnswer) row(each *podTally) []string {
	status, number := &each.Status, func(n int64) string { return strconv.FormatInt(n, 10) }
	oldest, state := "-", tallyState(each.Status.Conditions)
	if !each.Oldest.IsZero() {
		oldest = lifetime.TTL{After: a.now.Sub(each.Oldest).Truncate(time.Second)}.String()
	}
	row := []string{
		each.Name, number(status.Active), number(status.Succeeded), number(status.Failed), strconv.Itoa(len(each.uncounted())), oldest,
		strconv.FormatFloat(math.Round(each.PerHour(a.now)), 'f', -1, 64), state,
	}
	if a.everywhere {
		row = append([]string{each.Namespace}, row...)
	}
	if !a.wide {
		return row
	}
	since, ttl := console.Instant(ptr.Deref(status.StartTime, metav1.Time{}).Time, a.now.Location()), ptr.Deref(each.Spec.TTLAfterCounted, "-")
	return append(row, since, string(ttl), console.OrDash(tallyMessage(status.Conditions)))
}

// unusual are the conditions that say more than that the tally counts.
func unusual(conditions []metav1.Condition) []*metav1.Condition {
	var out []*metav1.Condition
	for i := range conditions {
		if condition := &conditions[i]; (condition.Type == v1alpha1.ConditionReady) != (condition.Status == metav1.ConditionTrue) {
			out = append(out, condition)
		}
	}
	return out
}

// tallyState is the reason of the first unusual condition, or says that the tally counts.
func tallyState(conditions []metav1.Condition) string {
	if len(conditions) == 0 {
		return "not counting yet"
	}
	reasons := console.Map(unusual(conditions), func(c *metav1.Condition) string { return c.Reason })
	return cmp.Or(strings.Join(reasons, ", "), v1alpha1.ReasonCounting)
}

func tallyMessage(conditions []metav1.Condition) string {
	messages := console.Map(unusual(conditions), func(c *metav1.Condition) string { return c.Type + ": " + c.Message })
	return strings.Join(messages, "; ")
}

// podTally is a PodTally with the counts of its Pods.
type podTally struct {
	*v1alpha1.PodTally
	// Oldest is when the first of the uncounted Pods finished; zero where that is not known.
	Oldest time.Time
}

// uncounted are the finished Pods that are being counted.
func (t *podTally) uncounted() []types.UID {
	if listed := t.Status.UncountedTerminatedPods; listed != nil {
		return slices.Concat(listed.Succeeded, listed.Failed)
	}
	return nil
}

// PerHour is how many Pods have been counted an hour, on average.
func (t *podTally) PerHour(now time.Time) float64 {
	if t.Status.StartTime == nil || !now.After(t.Status.StartTime.Time) {
		return 0
	}
	return float64(t.Status.Succeeded+t.Status.Failed) / now.Sub(t.Status.StartTime.Time).Hours()
}

// read returns the PodTallies of a namespace, of all with "", and with a name that one.
func read(ctx context.Context, w *world.World, namespace, name string) ([]*podTally, error) {
	resource := v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)
	all, presence, err := world.Items[v1alpha1.PodTally](ctx, w, resource, namespace, "")
	switch {
	case err != nil:
		return nil, err
	case presence == world.Unread:
		return nil, fmt.Errorf("you may not list %s: ask for a role that allows it", resource.GroupResource())
	}
	var out []*podTally
	for _, each := range all {
		if name != "" && each.Name != name {
			continue
		}
		tally := &podTally{PodTally: each}
		if err := oldest(ctx, w, tally); err != nil {
			return nil, err
		}
		out = append(out, tally)
	}
	if name != "" && len(out) == 0 {
		return nil, fmt.Errorf("there is no PodTally %q in namespace %q", name, namespace)
	}
	slices.SortFunc(out, func(a, b *podTally) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// oldest reads when the uncounted Pods finished, if there are any and the user may list Pods.
func oldest(ctx context.Context, w *world.World, tally *podTally) error {
	uncounted := tally.uncounted()
	if len(uncounted) == 0 {
		return nil
	}
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	pods, presence, err := world.Items[corev1.Pod](ctx, w, resource, tally.Namespace, metav1.FormatLabelSelector(&tally.Spec.Selector))
	if err != nil {
		return err
	}
	if presence == world.Unread {
		w.Lack("list pods in namespace %s", tally.Namespace)
	}
	for _, pod := range pods {
		t := policy.FactsOfPod(pod).FinishTime
		if !t.IsZero() && slices.Contains(uncounted, pod.UID) && (tally.Oldest.IsZero() || t.Before(tally.Oldest)) {
			tally.Oldest = t
		}
	}
	return nil
}
