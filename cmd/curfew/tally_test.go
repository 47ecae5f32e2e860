package main

import (
	"context"
	"testing"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/tally"
	"curfew.dev/curfew/policy"
)

type doneAction struct{ deletion.Action }

func (doneAction) Do(context.Context, deletion.Due) deletion.Answer {
	return deletion.Answer{Outcome: deletion.Done}
}

// Where tallies are off no controller knows their Pods: a deletion must not wait for one.
func TestDisowningIsOff(t *testing.T) {
	c := &controller{process: &process{options: &options{enable: []string{string(policy.TriggerTTL)}}}}
	if _, waits := c.disowning(doneAction{}).(tally.Disowning); waits {
		t.Error("deletions wait for a PodTally although tallies are off")
	}
	c.options.enable = append(c.options.enable, string(policy.TriggerTally))
	if _, waits := c.disowning(doneAction{}).(tally.Disowning); !waits {
		t.Error("deletions do not release Pods although tallies are on")
	}
}
