package unused

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// States of objects.
const (
	stateUnused  = "Unused"
	stateUnknown = "Unknown"
	stateKept    = "Kept"
)

// undecided are the reasons that leave open whether an object is used.
var undecided = []string{cleanup.SkipLookup, cleanup.SkipEvaluation, cleanup.SkipNamespace}

// Item is one object for programs. Objects that are used are left out.
type Item struct {
	Object  console.ObjectData `json:"object"`
	State   string             `json:"state" doc:"Unused, Unknown (whether it is used), or Kept (unused, but no policy would delete it)"`
	Reason  string             `json:"reason,omitempty" doc:"why it is Unknown or Kept, in one word"`
	Message string             `json:"message,omitempty"`
	Created *time.Time         `json:"created,omitempty"`
}

// engine is what the message of an evaluation begins with: the condition is not the user's.
var engine = regexp.MustCompile(`^spec\.conditions\[0\] \(unused\): (evaluating: )?(lookup\.\w+: )?`)

// answer is what the finders have found.
type answer struct {
	now    time.Time
	listed int64
	items  []Item
	notes  []string
	// paged shows the progress.
	paged func(context.Context) error
}

func (a *answer) add(object *preview.Object) {
	item := Item{
		Object: console.ObjectOf(object.GroupVersion().String(), object.Kind, object.Namespace, object.Name, object.UID),
		State:  stateUnused, Reason: object.Reason, Message: engine.ReplaceAllString(object.Message, ""), Created: console.TimeData(object.Created, a.now),
	}
	switch {
	case slices.Contains(undecided, object.Reason):
		item.State = stateUnknown
	case object.Reason != "":
		item.State = stateKept
	}
	a.items = append(a.items, item)
}

// printed is the answer for programs. -o name shows unused objects only.
func (a *answer) printed() console.Printed {
	out := console.Printed{Document: console.ListOf("UnusedList", a.now, a.items, a.notes)}
	for i := range a.items {
		if a.items[i].State == stateUnused {
			out.Objects = append(out.Objects, a.items[i].Object)
		}
	}
	return out
}

// print writes the answer for people: unused objects, and the numbers of others by reason. With
// wide it lists all.
func (a *answer) print(wide, noHeaders bool, out io.Writer) error {
	counts := map[string]int{}
	var skipped []v1alpha1.SkipCount
	unused, all := console.NewTable("NAMESPACE", "KIND", "NAME", "AGE"), report.ObjectTable()
	for i := range a.items {
		item := &a.items[i]
		counts[item.State]++
		object := &item.Object
		if wide {
			console.AddRow(all, nil, object.Kind, console.OrDash(object.Namespace), object.Name, item.State, console.OrDash(item.Message))
		}
		if item.State == stateUnused {
			age := "-"
			if item.Created != nil {
				age = console.TwoUnits(a.now.Sub(*item.Created))
			}
			console.AddRow(unused, nil, console.OrDash(object.Namespace), object.Kind, object.Name, age)
			continue
		}
		index := slices.IndexFunc(skipped, func(s v1alpha1.SkipCount) bool { return s.Reason == item.State+": "+item.Reason })
		if index < 0 {
			index = len(skipped)
			skipped = append(skipped, v1alpha1.SkipCount{
				Reason:  item.State + ": " + item.Reason,
				Message: fmt.Sprintf("%s %s: %s", object.Kind, strings.TrimPrefix(object.Namespace+"/"+object.Name, "/"), item.Message),
			})
		}
		skipped[index].Count++
	}
	slices.SortFunc(skipped, func(a, b v1alpha1.SkipCount) int { return cmp.Compare(a.Reason, b.Reason) })
	fmt.Fprintf(out, "%d unused, %d unknown and %d kept of %s\n",
		counts[stateUnused], counts[stateUnknown], counts[stateKept], console.Count(a.listed, "object"))
	if wide {
		unused.Rows = nil
	}
	return report.PrintTables(out, noHeaders, unused, skipped, all)
}
