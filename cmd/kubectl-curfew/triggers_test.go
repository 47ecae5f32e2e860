package main

import (
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
)

// TestNewTrigger: expiring --trigger and explain know a trigger as soon as it is registered. While
// it is switched off, it does not block a TTL.
func TestNewTrigger(t *testing.T) {
	const list, explain = "expiring jobs -n ci --no-headers --trigger stuck", "explain job/build -n ci"
	expectRun(t, switchedOn(t, "ttl,stuck"), scene{}, list, console.ExitUsage) // It is not registered yet.
	remove := judging.RegisterTrigger(judging.TriggerInfo{
		Name: "stuck", Verb: "deletes", Settings: "annotation example.com/stuck-for", Unfinished: true,
		Judge: func(e *judging.Explanation, now time.Time) policy.Verdict {
			if e.Facts.Name != "build" {
				return policy.Verdict{Action: policy.Keep}
			}
			return policy.Verdict{Action: policy.Wait, Expiry: now.Add(10 * time.Minute), Source: lifetime.Source{Level: lifetime.LevelObject}}
		},
	})
	defer remove()
	stdout, _, _ := expectRun(t, switchedOn(t, "ttl,stuck"), scene{}, list, console.ExitOK)
	expectStart(t, "row", strings.Join(strings.Fields(stdout), " "), "job.batch/build 2026-12-24 13:10:00 CET 10m stuck object")
	expectRun(t, switchedOn(t, "ttl,stuck"), scene{}, explain, console.ExitOK, "by trigger stuck (annotation example.com/stuck-for)")
	off, _, _ := expectRun(t, switchedOn(t, "ttl"), scene{}, explain, console.ExitOK)
	remove()
	without, _, _ := expectRun(t, switchedOn(t, "ttl"), scene{}, explain, console.ExitOK, "expires")
	expectSame(t, "explain while the trigger is switched off", off, without)
}
