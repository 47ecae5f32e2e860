package expire

import (
	"slices"
	"testing"
)

// What objects, or their runtimes, asked for themselves is summed up by namespace; what another
// source asked for is not.
func TestSummariesByNamespace(t *testing.T) {
	s := summaries{of: map[summaryKey]*Summary{}, outcomes: map[Ending]int{}}
	for _, source := range []string{"object", "runtime/torch", "policy/platform"} {
		for _, namespace := range []string{"ci", "lab", "ci"} {
			s.add(&KindOptions{}, &Outcome{Object: Entry{Namespace: namespace, Name: "a", Source: source}, Trigger: "ttl", Result: Deleted})
		}
	}
	var have []string
	for _, sum := range s.of {
		have = append(have, sum.Source+" "+sum.Namespace)
	}
	slices.Sort(have)
	if want := []string{"object ci", "object lab", "policy/platform ", "runtime/torch ci", "runtime/torch lab"}; !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}
