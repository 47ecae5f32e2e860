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
	list, explain := words("expiring jobs -n ci --no-headers --trigger stuck"), words("explain job/build -n ci")
	code, _, stderr, _ := executeIn(t, switchedOn(t, "ttl,stuck"), scene{}, list...)
	expectExit(t, "expiring with a trigger that is not registered", code, console.ExitUsage, stderr)
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
	code, stdout, stderr, _ := executeIn(t, switchedOn(t, "ttl,stuck"), scene{}, list...)
	row := strings.Join(strings.Fields(stdout), " ")
	if want := "job.batch/build 2026-12-24 13:10:00 CET 10m stuck object"; code != console.ExitOK || !strings.HasPrefix(row, want) {
		t.Errorf("expiring: exit status %d: %q, want %q\n%s", code, row, want, stderr)
	}
	code, stdout, stderr, _ = executeIn(t, switchedOn(t, "ttl,stuck"), scene{}, explain...)
	if want := "by trigger stuck (annotation example.com/stuck-for)"; code != console.ExitOK || !strings.Contains(stdout, want) {
		t.Errorf("explain: exit status %d: %q is not in\n%s%s", code, want, stdout, stderr)
	}
	_, off, _, _ := executeIn(t, switchedOn(t, "ttl"), scene{}, explain...)
	remove()
	_, without, _, _ := executeIn(t, switchedOn(t, "ttl"), scene{}, explain...)
	if off != without || !strings.Contains(without, "expires") {
		t.Errorf("explain while it is switched off:\n%s\nwant what its TTL says alone:\n%s", off, without)
	}
}
