package judging_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/test/builders"
)

// TestOthers: an explanation has the verdict of a trigger with a judge of its own, and an unusable
// value of that trigger is an obstacle.
func TestOthers(t *testing.T) {
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	defer judging.RegisterTrigger(judging.TriggerInfo{Name: "stuck",
		Judge: func(_ *judging.Explanation, instant time.Time) policy.Verdict {
			return policy.Verdict{Action: policy.Keep, Reason: "its limit cannot be used", Expiry: instant, Err: errors.New("soon is no duration")}
		},
	})()
	facts := policy.FactsOfObject(policy.JobProfile, builders.MakeJob("ci", "a").Created(now).Map())
	e := judging.Explain(facts, &resolution.Scope{}, judging.Question{Now: now})
	if len(e.Others) != 1 || e.Others[0].Trigger != "stuck" || !e.Others[0].Expiry.Equal(now) {
		t.Errorf("others: %+v", e.Others)
	}
	want := judging.Obstacle{Kind: judging.ObstacleValue, Message: "its limit cannot be used: soon is no duration", Stops: true}
	if have := e.Obstacles(judging.Surroundings{}); !slices.Contains(have, want) {
		t.Errorf("obstacles %v, want %v among them", have, want)
	}
}
