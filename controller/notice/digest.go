package notice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/record"
)

const (
	// noteMost is where the API server cuts the text of an Event.
	noteMost = 1024
	// kindsMost bounds how many kinds a note names.
	kindsMost = 8
	examples  = 10
)

// deletions counts deleted objects and names some of them.
type deletions struct {
	counts  map[group]int
	names   []string
	records []record.Record
}

type group struct{ kind, trigger string }

// digest is an Event and the deletions that it has counted.
type digest struct {
	name        string
	first, last time.Time
	count       int32 // of changes
	total       int   // of deletions
	records     []record.Record
}

func recordOf(s *engine.Summary, name string) record.Record {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		namespace, name = "", namespace
	}
	return record.Record{
		Resource: s.Kind.Resource.GroupResource().String(), Namespace: namespace, Name: name, Trigger: s.Trigger, Source: s.Source,
		From: s.First.UTC(), To: s.Last.UTC(),
	}
}

// annotations returns the annotations of the Event. Only real deletions are on record.
func (e *digest) annotations(reason string) map[string]string {
	if reason != ReasonDeleted {
		return nil
	}
	return record.Annotations(e.records, e.total)
}

// add counts deletions and returns the text of the Event: these, and how many there were in all.
func (e *digest) add(reason string, of *deletions, now time.Time) string {
	fresh := 0
	for _, n := range of.counts {
		fresh += n
	}
	e.last = now
	e.count++
	e.total += fresh
	e.records = record.Latest(append(e.records, of.records...))
	note := of.describe(reason)
	if fresh > len(of.names) {
		note += ", …"
	}
	if e.count > 1 {
		note += fmt.Sprintf(" (%d since %s)", e.total, e.first.UTC().Format(time.RFC3339))
	}
	if len(note) > noteMost {
		note = strings.ToValidUTF8(note[:noteMost], "")
	}
	return note
}

func (of *deletions) describe(reason string) string {
	verb := "Deleted"
	if reason == ReasonWouldDelete {
		verb = "Would delete (dry-run)"
	}
	groups := slices.SortedFunc(maps.Keys(of.counts), func(a, b group) int {
		return cmp.Or(of.counts[b]-of.counts[a], strings.Compare(a.kind, b.kind), strings.Compare(a.trigger, b.trigger))
	})
	var parts []string
	for i, g := range groups {
		if i == kindsMost {
			parts = append(parts, fmt.Sprintf("%d more kinds", len(groups)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d x %s by %s", of.counts[g], g.kind, g.trigger))
	}
	return fmt.Sprintf("%s %s: %s", verb, strings.Join(parts, ", "), strings.Join(of.names, ", "))
}
