package policy_test

import (
	"slices"
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// TestPausableTriggers: the list of triggers and the names that a pause accepts agree. The enum of
// DeletionPauses in package v1alpha1 is not compared.
func TestPausableTriggers(t *testing.T) {
	var pausable []policy.Trigger
	for _, info := range judging.Triggers() {
		if info.Pausable {
			pausable = append(pausable, info.Name)
		}
	}
	if !slices.Equal(pausable, judging.PausableTriggers()) {
		t.Errorf("triggers that say Pausable: %v, triggers of a DeletionPause: %v", pausable, judging.PausableTriggers())
	}
}
