package policy_test

import (
	"slices"
	"testing"

	"curfew.dev/curfew/policy"
)

// TestPausableTriggers: the list of triggers and the API of DeletionPauses name the same ones.
func TestPausableTriggers(t *testing.T) {
	var pausable []policy.Trigger
	for _, info := range policy.Triggers() {
		if info.Pausable {
			pausable = append(pausable, info.Name)
		}
	}
	if !slices.Equal(pausable, policy.PausableTriggers()) {
		t.Errorf("triggers that say Pausable: %v, triggers of a DeletionPause: %v", pausable, policy.PausableTriggers())
	}
}
