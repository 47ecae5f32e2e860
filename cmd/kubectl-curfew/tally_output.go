package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// tallyAnswer is the answer of tally.
type tallyAnswer struct {
	tallies          []*world.Tally
	now              time.Time
	everywhere, wide bool
}

// tallyItem is a PodTally for programs.
type tallyItem struct {
	Object     objectData      `json:"object"`
	Active     int64           `json:"active" doc:"Pods that have not finished"`
	Succeeded  int64           `json:"succeeded" doc:"including those that were deleted since"`
	Failed     int64           `json:"failed" doc:"including those that were deleted since"`
	Uncounted  int             `json:"uncounted" doc:"finished Pods that are being counted"`
	Oldest     *time.Time      `json:"oldestUncounted,omitempty" doc:"when the first of these finished, if that is known"`
	Started    *time.Time      `json:"startTime,omitempty" doc:"when Curfew began to count"`
	PerHour    float64         `json:"perHour" doc:"finished Pods an hour since then, on average"`
	TTL        string          `json:"ttlAfterCounted,omitempty"`
	Conditions []conditionData `json:"conditions,omitempty"`
}

type conditionData struct {
	Type    string `json:"type" doc:"Ready, Conflicting or Releasing"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

func (a *tallyAnswer) printed(notes []string) printed {
	var items []tallyItem
	var objects []objectData
	for _, each := range a.tallies {
		status := &each.Status
		item := tallyItem{
			Object: objectData{v1alpha1.GroupVersion.String(), "PodTally", each.Namespace, each.Name, string(each.UID)},
			Active: status.Active, Succeeded: status.Succeeded, Failed: status.Failed, Uncounted: each.Uncounted(), PerHour: each.PerHour(a.now),
		}
		if !each.Oldest.IsZero() {
			item.Oldest = timeData(each.Oldest, a.now)
		}
		if status.StartTime != nil {
			item.Started = timeData(status.StartTime.Time, a.now)
		}
		if ttl := each.Spec.TTLAfterCounted; ttl != nil {
			item.TTL = string(*ttl)
		}
		for i := range status.Conditions {
			condition := &status.Conditions[i]
			item.Conditions = append(item.Conditions, conditionData{condition.Type, string(condition.Status), condition.Reason, condition.Message})
		}
		items, objects = append(items, item), append(objects, item.Object)
	}
	return printed{document: listOf("TallyList", a.now, items, notes), objects: objects}
}

func (a *tallyAnswer) table(noHeaders bool, out io.Writer) error {
	header := []string{"NAME", "ACTIVE", "SUCCEEDED", "FAILED", "UNCOUNTED", "OLDEST", "PER HOUR", "STATE"}
	if a.everywhere {
		header = append([]string{"NAMESPACE"}, header...)
	}
	if a.wide {
		header = append(header, "SINCE", "TTL", "MESSAGE")
	}
	table := newTable(header...)
	for _, each := range a.tallies {
		addRow(table, each.Labels, a.row(each)...)
	}
	return printTable(table, printers.PrintOptions{NoHeaders: noHeaders}, out)
}

func (a *tallyAnswer) row(each *world.Tally) []string {
	status, number := &each.Status, func(n int64) string { return strconv.FormatInt(n, 10) }
	oldest, state := "-", tallyState(each.Status.Conditions)
	if !each.Oldest.IsZero() {
		oldest = policy.TTL{After: a.now.Sub(each.Oldest).Truncate(time.Second)}.String()
	}
	row := []string{
		each.Name, number(status.Active), number(status.Succeeded), number(status.Failed), strconv.Itoa(each.Uncounted()), oldest,
		strconv.FormatFloat(math.Round(each.PerHour(a.now)), 'f', -1, 64), state,
	}
	if a.everywhere {
		row = append([]string{each.Namespace}, row...)
	}
	if !a.wide {
		return row
	}
	since, ttl := "-", "-"
	if status.StartTime != nil {
		since = instant(status.StartTime.Time, a.now.Location())
	}
	if each.Spec.TTLAfterCounted != nil {
		ttl = string(*each.Spec.TTLAfterCounted)
	}
	return append(row, since, ttl, orDash(tallyMessage(status.Conditions)))
}

// unusual are the conditions that say more than that the tally counts.
func unusual(conditions []metav1.Condition) []*metav1.Condition {
	var out []*metav1.Condition
	for i := range conditions {
		if one := &conditions[i]; (one.Type == v1alpha1.ConditionReady) != (one.Status == metav1.ConditionTrue) {
			out = append(out, one)
		}
	}
	return out
}

// tallyState is the reason of what is unusual, else that the tally counts.
func tallyState(conditions []metav1.Condition) string {
	if len(conditions) == 0 {
		return "not counting yet"
	}
	var reasons []string
	for _, one := range unusual(conditions) {
		reasons = append(reasons, one.Reason)
	}
	if len(reasons) == 0 {
		return v1alpha1.ReasonCounting
	}
	return strings.Join(reasons, ", ")
}

func tallyMessage(conditions []metav1.Condition) string {
	var messages []string
	for _, one := range unusual(conditions) {
		messages = append(messages, fmt.Sprintf("%s: %s", one.Type, one.Message))
	}
	return strings.Join(messages, "; ")
}
