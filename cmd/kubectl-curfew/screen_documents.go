package main

import (
	"io"
	"maps"
	"reflect"
	"slices"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// What happened to a row since the last round of --watch.
const (
	eventNew     = "NEW"
	eventChanged = "CHANGED"
	eventGone    = "GONE"
)

// keyOf names a row across rounds: an object has one for its expiry, one for its deadline, and one
// for each cleanup policy that matches it.
func keyOf(entry *world.Entry) string {
	key := string(entry.UID) + " " + string(entry.Trigger)
	if entry.Trigger == policy.TriggerCleanup {
		key += " " + entry.Source.String()
	}
	return key
}

// asDocuments prints a list of the rows that changed, each time that some did. Its first list has
// all rows.
type asDocuments struct {
	noteLines
	printFunc
	out   io.Writer
	began bool
	// shown are the current rows, without the time that is left.
	shown map[string]entryData
}

func (s *asDocuments) show(report *expiringReport) error {
	s.print(report.notes)
	var changed []entryData
	current := map[string]bool{}
	for i, item := range report.items() {
		key := keyOf(report.entries[i])
		current[key] = true
		lasting := item
		lasting.Left = nil
		was, known := s.shown[key]
		switch {
		case !known:
			item.Event = eventNew
		case !reflect.DeepEqual(was, lasting):
			item.Event = eventChanged
		}
		s.shown[key] = lasting
		if item.Event != "" {
			changed = append(changed, item)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.shown)) {
		if !current[key] {
			gone := s.shown[key]
			gone.Event = eventGone
			changed = append(changed, gone)
			delete(s.shown, key)
		}
	}
	if s.began && len(changed) == 0 {
		return nil
	}
	s.began = true
	return s.printFunc(printed{document: listOf("ExpiryList", report.now, changed, report.notes)}, s.out)
}
