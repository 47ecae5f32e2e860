package judging

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

func TestJudgeDeadline(t *testing.T) {
	kind := &policy.Profile{
		Name: "runs", Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Run"}, AnnotatedDeadline: true,
		DefaultManager: "example.com/run", State: func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil },
	}
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	native := lifetime.NativeField{Set: true, Seconds: 3600}
	hour := resolution.Value{Set: true, TTL: lifetime.TTL{After: time.Hour}, Source: lifetime.Source{Level: lifetime.LevelNamespace, Name: "ci"}, Live: true}
	for name, c := range map[string]struct {
		facts  policy.Facts
		value  resolution.Value
		dryRun bool
		grace  time.Duration
		after  time.Duration // since start
		action policy.Action
		expiry time.Duration // since start
		reason string
		err    bool
	}{
		"is to have none":           {policy.Facts{State: policy.State{Started: start}}, resolution.Value{Set: true, TTL: lifetime.TTL{Never: true}, Source: lifetime.Source{Level: lifetime.LevelObject}}, false, 0, 9 * time.Hour, policy.Keep, 0, "is to have no deadline", false},
		"not yet":                   {policy.Facts{State: policy.State{Started: start}}, hour, false, 0, time.Hour - 1, policy.Wait, time.Hour, "", false},
		"due, to the nanosecond":    {policy.Facts{State: policy.State{Started: start}}, hour, false, 0, time.Hour, policy.Stop, time.Hour, "", false},
		"left to its controller":    {policy.Facts{NativeDeadline: native, State: policy.State{Started: start}}, hour, false, 30 * time.Second, time.Hour, policy.Wait, time.Hour + 30*time.Second, "", false},
		"backstop":                  {policy.Facts{NativeDeadline: native, State: policy.State{Started: start}}, hour, false, 30 * time.Second, time.Hour + 30*time.Second, policy.Stop, time.Hour + 30*time.Second, "", false},
		"ignored by its controller": {policy.Facts{NativeDeadline: native, DeadlineByCurfew: true, State: policy.State{Started: start}}, hour, false, 30 * time.Second, time.Hour, policy.Stop, time.Hour, "", false},
		"marked, no other acts":     {policy.Facts{Exceeded: start.Add(time.Hour), Created: start, DeadlineByCurfew: true, State: policy.State{Finished: true, Outcome: lifetime.Failed}}, hour, false, 30 * time.Second, time.Hour, policy.Stop, time.Hour, "", false},
		"unknown to its controller": {policy.Facts{State: policy.State{Started: start}}, hour, false, 30 * time.Second, time.Hour, policy.Stop, time.Hour, "", false},
		"dry-run":                   {policy.Facts{State: policy.State{Started: start}}, hour, true, 0, time.Hour, policy.Stop, time.Hour, "", false},
		"no deadline":               {policy.Facts{State: policy.State{Started: start}}, resolution.Value{}, false, 0, 9 * time.Hour, policy.Keep, 0, "has no deadline", false},
		"not started":               {policy.Facts{}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "has not started", false},
		"suspended":                 {policy.Facts{State: policy.State{Suspended: true}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "is suspended", false},
		"suspended with a start":    {policy.Facts{State: policy.State{Suspended: true, Started: start}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "is suspended", false},
		"finished":                  {policy.Facts{State: policy.State{Started: start, Finished: true, Outcome: lifetime.Succeeded}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "has finished", false},
		"failed by itself":          {policy.Facts{State: policy.State{Started: start, Finished: true, Outcome: lifetime.Failed}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "has finished", false},
		"marked: see what runs on":  {policy.Facts{Exceeded: start.Add(2 * time.Hour), State: policy.State{Started: start, Finished: true, Outcome: lifetime.Failed}}, hour, false, 0, 2 * time.Hour, policy.Stop, 2 * time.Hour, "", false},
		"marked by its controller":  {policy.Facts{Exceeded: start.Add(time.Hour), State: policy.State{Started: start, Finished: true, Outcome: lifetime.Failed}}, hour, false, 30 * time.Second, time.Hour, policy.Wait, time.Hour + 30*time.Second, "", false},
		"marked, has no deadline":   {policy.Facts{Exceeded: start, State: policy.State{Started: start, Finished: true, Outcome: lifetime.Failed}}, resolution.Value{}, false, 0, 9 * time.Hour, policy.Keep, 0, "has no deadline", false},
		"marked before it":          {policy.Facts{Exceeded: start.Add(time.Second), State: policy.State{Started: start, Finished: true, Outcome: lifetime.Failed}}, hour, false, 0, time.Minute, policy.Wait, time.Hour, "", false},
		"suspended by Curfew":       {policy.Facts{Exceeded: start.Add(time.Hour), Created: start, State: policy.State{Suspended: true}}, hour, false, 0, time.Hour, policy.Stop, time.Hour, "", false},
		"suspended, no deadline":    {policy.Facts{Exceeded: start.Add(time.Hour), Created: start, State: policy.State{Suspended: true}}, resolution.Value{}, false, 0, time.Hour, policy.Keep, 0, "has no deadline", false},
		"unreadable value": {policy.Facts{State: policy.State{Started: start}}, resolution.Value{Set: true, Err: errors.New("soon is no duration"), Path: "metadata.annotations"}, false, 0,
			9 * time.Hour, policy.Keep, 0, "its deadline cannot be used", true},
		"unreadable state": {policy.Facts{StateError: errors.New("spec.state.finished: no such key"), State: policy.State{Started: start}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0,
			"its state cannot be read", true},
		"protected":             {policy.Facts{Annotations: map[string]string{wellknown.AnnotationProtect: "true"}, State: policy.State{Started: start}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "is protected by annotation curfew.dev/protect", false},
		"marked, protected":     {policy.Facts{Exceeded: start, Annotations: map[string]string{wellknown.AnnotationProtect: "true"}, State: policy.State{Finished: true, Outcome: lifetime.Failed}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "is protected by annotation curfew.dev/protect", false},
		"another manager's":     {policy.Facts{ManagedBy: "kueue.x-k8s.io/multikueue", State: policy.State{Started: start}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "is managed by kueue.x-k8s.io/multikueue", false},
		"its own controller's":  {policy.Facts{ManagedBy: "example.com/run", State: policy.State{Started: start}}, hour, false, 0, time.Hour, policy.Stop, time.Hour, "", false},
		"being deleted":         {policy.Facts{Deleting: true, State: policy.State{Started: start}}, hour, false, 0, 9 * time.Hour, policy.Keep, 0, "is being deleted already", false},
		"started in the future": {policy.Facts{State: policy.State{Started: start.Add(time.Hour)}}, hour, false, 0, time.Hour, policy.Wait, 2 * time.Hour, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := c.facts
			facts.Profile = kind
			got := JudgeDeadline(&facts, &resolution.Effective{Deadline: c.value, DryRun: c.dryRun}, c.grace, start.Add(c.after))
			if got.Action != c.action || got.Reason != c.reason || (got.Err != nil) != c.err || got.DryRun != (c.dryRun && c.action != policy.Keep) {
				t.Fatalf("got %+v, want %s, %q, error %v", got, c.action, c.reason, c.err)
			}
			if c.action == policy.Keep {
				return
			}
			if want := start.Add(c.expiry); !got.Expiry.Equal(want) {
				t.Errorf("due at %s, want %s", got.Expiry, want)
			}
			trigger := policy.TriggerDeadline
			if !facts.Exceeded.IsZero() {
				trigger = policy.TriggerDeadlineCheck
			}
			if got.Trigger != trigger || got.Source != hour.Source || !got.Live {
				t.Errorf("trigger %s, source %s, live %v; want %s, %s, true", got.Trigger, got.Source, got.Live, trigger, hour.Source)
			}
		})
	}
}

// Who failed an object, and when, is read from any list of conditions. An incomplete condition is no
// mark (S6).
func TestExceededAt(t *testing.T) {
	condition := func(reason, status, when string) map[string]any {
		return map[string]any{"type": "Failed", "reason": reason, "status": status, "lastTransitionTime": when}
	}
	const instant = "2026-05-04T12:00:00Z"
	for name, c := range map[string]struct {
		conditions any
		want       bool
	}{
		"marked":         {[]any{map[string]any{"type": "Ready"}, condition("DeadlineExceeded", "True", instant)}, true},
		"taken back":     {[]any{condition("DeadlineExceeded", "False", instant)}, false},
		"another reason": {[]any{condition("BackoffLimitExceeded", "True", instant)}, false},
		"without a time": {[]any{condition("DeadlineExceeded", "True", "")}, false},
		"no list":        {"DeadlineExceeded", false},
		"no conditions":  {[]any{"DeadlineExceeded", nil}, false},
		"nothing":        {nil, false},
	} {
		got := policy.ExceededAt(map[string]any{"status": map[string]any{"conditions": c.conditions}})
		if got.IsZero() == c.want {
			t.Errorf("%s: exceeded at %s, want a time: %t", name, got, c.want)
		}
	}
	if !policy.ExceededAt(map[string]any{}).IsZero() {
		t.Error("no status, and yet marked")
	}
}

// Curfew recognises its own suspension until the spec changes: an author who resumes the object and
// suspends it again has suspended it for a reason of their own.
func TestSuspendedAt(t *testing.T) {
	instant := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for record, want := range map[string]time.Time{SuspensionRecord(instant, 4): instant, SuspensionRecord(instant, 3): {}, "2026-05-04T12:00:00Z": {}, "soon/4": {}, "": {}} {
		if got := policy.SuspendedAt(record, 4); !got.Equal(want) {
			t.Errorf("%q of generation 4: %s, want %s", record, got, want)
		}
	}
}
