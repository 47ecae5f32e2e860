package main

import (
	"maps"
	"slices"
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// TestEveryTriggerIsRegistered: the controller runs the triggers of the list, and no others. It
// takes an action for each one that has a verb.
func TestEveryTriggerIsRegistered(t *testing.T) {
	var listed []policy.Trigger
	for _, info := range judging.Triggers() {
		listed = append(listed, info.Name)
		if acts := registered[info.Name].action != nil; acts != (info.Verb != "") {
			t.Errorf("trigger %s: verb %q in the list, an action in the controller: %v", info.Name, info.Verb, acts)
		}
	}
	slices.Sort(listed)
	if have := slices.Sorted(maps.Keys(registered)); !slices.Equal(have, listed) {
		t.Errorf("registered: %v, want %v", have, listed)
	}
}
