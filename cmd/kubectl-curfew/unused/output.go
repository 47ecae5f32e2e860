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

func (a *answer) add(of *preview.Object) {
	item := Item{
		Object: console.ObjectOf(of.GroupVersion().String(), of.Kind, of.Namespace, of.Name, of.UID),
		State:  stateUnused, Reason: of.Reason, Message: engine.ReplaceAllString(of.Message, ""), Created: console.TimeData(of.Created, a.now),
	}
	switch {
	case slices.Contains(undecided, of.Reason):
		item.State = stateUnknown
	case of.Reason != "":
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
		one := &a.items[i]
		counts[one.State]++
		object := &one.Object
		if wide {
			console.AddRow(all, nil, object.Kind, console.OrDash(object.Namespace), object.Name, one.State, console.OrDash(one.Message))
		}
		if one.State == stateUnused {
			age := "-"
			if one.Created != nil {
				age = console.TwoUnits(a.now.Sub(*one.Created))
			}
			console.AddRow(unused, nil, console.OrDash(object.Namespace), object.Kind, object.Name, age)
			continue
		}
		at := slices.IndexFunc(skipped, func(of v1alpha1.SkipCount) bool { return of.Reason == one.State+": "+one.Reason })
		if at < 0 {
			at = len(skipped)
			skipped = append(skipped, v1alpha1.SkipCount{
				Reason:  one.State + ": " + one.Reason,
				Message: fmt.Sprintf("%s %s: %s", object.Kind, strings.TrimPrefix(object.Namespace+"/"+object.Name, "/"), one.Message),
			})
		}
		skipped[at].Count++
	}
	slices.SortFunc(skipped, func(a, b v1alpha1.SkipCount) int { return cmp.Compare(a.Reason, b.Reason) })
	fmt.Fprintf(out, "%d unused, %d unknown and %d kept of %s\n",
		counts[stateUnused], counts[stateUnknown], counts[stateKept], console.Count(a.listed, "object"))
	if wide {
		unused.Rows = nil
	}
	return report.PrintTables(out, noHeaders, unused, skipped, all)
}
