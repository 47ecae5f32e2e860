package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

func TestPauseHolds(t *testing.T) {
	for name, test := range map[string]struct {
		pause     judging.Pause
		trigger   policy.Trigger
		namespace string
		want, all bool
	}{
		"everything":           {judging.Pause{}, policy.TriggerTTL, "ci", true, true},
		"what has none":        {judging.Pause{}, policy.TriggerLabel, "", true, true},
		"a trigger":            {judging.Pause{Triggers: []policy.Trigger{"ttl"}}, policy.TriggerTTL, "", true, true},
		"another trigger":      {judging.Pause{Triggers: []policy.Trigger{"ttl", "label"}}, policy.TriggerCleanup, "ci", false, false},
		"a namespace":          {judging.Pause{Namespaces: []string{"ci"}}, policy.TriggerTTL, "ci", true, false},
		"a longer name":        {judging.Pause{Namespaces: []string{"ci"}}, policy.TriggerTTL, "ci-2", false, false},
		"a prefix":             {judging.Pause{Namespaces: []string{"x", "team-*"}}, policy.TriggerTTL, "team-a", true, false},
		"another prefix":       {judging.Pause{Namespaces: []string{"team-*"}}, policy.TriggerTTL, "steam-a", false, false},
		"a suffix":             {judging.Pause{Namespaces: []string{"*-ci"}}, policy.TriggerTTL, "a-ci", true, false},
		"the middle":           {judging.Pause{Namespaces: []string{"a*b*c"}}, policy.TriggerTTL, "a1b2c", true, false},
		"not in order":         {judging.Pause{Namespaces: []string{"a*b*c"}}, policy.TriggerTTL, "a1c2b", false, false},
		"no letter twice":      {judging.Pause{Namespaces: []string{"ab*ba"}}, policy.TriggerTTL, "aba", false, false},
		"all namespaces":       {judging.Pause{Namespaces: []string{"*"}}, policy.TriggerTTL, "ci", true, false},
		"and no cluster scope": {judging.Pause{Namespaces: []string{"*"}}, policy.TriggerTTL, "", false, false},
	} {
		if have, all := test.pause.Holds(test.trigger, test.namespace), test.pause.HoldsAll(test.trigger); have != test.want || all != test.all {
			t.Errorf("%s: holds %t, want %t; holds all %t, want %t", name, have, test.want, all, test.all)
		}
	}
	if judging.PauseScope("", "Namespace", "", "ci") != "ci" || judging.PauseScope("", "Node", "", "ci") != "" || judging.PauseScope("batch", "Job", "ci", "a") != "ci" {
		t.Error("PauseScope")
	}
}

func TestPauseMessage(t *testing.T) {
	noon := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	pause := judging.Pause{Name: "x", Reason: "a\nb", Triggers: []policy.Trigger{"ttl", "label"}, Namespaces: []string{"a", "b-*"}, Until: noon}
	if got, want := pause.Message(), "DeletionPause x holds trigger ttl, label in namespace a, b-*, until 2026-12-24T12:00:00Z: a b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if pause.Over(noon.Add(-1)) || !pause.Over(noon) || (&judging.Pause{}).Over(noon) {
		t.Error("Over")
	}
}
