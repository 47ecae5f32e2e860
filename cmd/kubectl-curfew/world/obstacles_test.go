package world

import (
	"testing"

	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
)

func TestConcerns(t *testing.T) {
	const job, pod = `deletions are paused: Job of source "namespace/ci" in namespace "ci" (Refused)`, `deletions are paused: Pod of source "namespace/ci" in namespace "ci" (Refused)`
	ci, own := lifetime.Source{Level: lifetime.LevelNamespace, Name: "ci"}, lifetime.Source{Level: lifetime.LevelObject}
	for message, want := range map[string]struct{ job, own bool }{
		job:              {true, false},
		pod:              {false, false},
		pod + "; " + job: {true, false},
		`deletions are paused: Job of source "object" in namespace "ci" (Refused)`: {false, true},
		"deletions are paused: all of kind Job (ServerErrors)":                     {true, true},
		"deletions are paused: all of kind JobSet (ServerErrors)":                  {false, false},
		"deletions are paused: everything (Unreachable)":                           {true, true},
		pod + "; and 2 more": {true, true}, // which are not told apart
	} {
		if have := concerns(message, "Job", ci); have != want.job {
			t.Errorf("%s: applies to a Job whose namespace decided: %t, want %t", message, have, want.job)
		}
		if have := concerns(message, "Job", own); have != want.own {
			t.Errorf("%s: applies to a Job that decided itself: %t, want %t", message, have, want.own)
		}
	}
}

// TestBlocker: an obstacle that only delays or undoes a deletion is no blocker.
func TestBlocker(t *testing.T) {
	owner, finalizer := judging.Obstacle{Kind: judging.ObstacleOwner}, judging.Obstacle{Kind: judging.ObstacleFinalizer}
	permission := judging.Obstacle{Kind: judging.ObstaclePermission, Stops: true}
	for want, obstacles := range map[judging.ObstacleKind][]judging.Obstacle{
		"":                         {finalizer, owner},
		judging.ObstaclePermission: {finalizer, owner, permission},
	} {
		have := judging.ObstacleKind("")
		if blocker := (&Entry{Obstacles: obstacles}).Blocker(); blocker != nil {
			have = blocker.Kind
		}
		if have != want {
			t.Errorf("%v: %q, want %q", obstacles, have, want)
		}
	}
}
