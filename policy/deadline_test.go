package policy

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestJudgeDeadline(t *testing.T) {
	kind := &Profile{
		Name: "runs", Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Run"}, AnnotatedDeadline: true,
		DefaultManager: "example.com/run", State: func(context.Context, map[string]any) (State, error) { return State{}, nil },
	}
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	native := NativeField{Set: true, Seconds: 3600}
	hour := Value{Set: true, TTL: TTL{After: time.Hour}, Source: Source{Level: LevelNamespace, Name: "ci"}, Live: true}
	for name, c := range map[string]struct {
		facts  Facts
		value  Value
		dryRun bool
		grace  time.Duration
		after  time.Duration // since start
		action Action
		expiry time.Duration // since start
		reason string
		err    bool
	}{
		"is to have none":           {Facts{State: State{Started: start}}, Value{Set: true, TTL: TTL{Never: true}, Source: Source{Level: LevelObject}}, false, 0, 9 * time.Hour, Keep, 0, "is to have no deadline", false},
		"not yet":                   {Facts{State: State{Started: start}}, hour, false, 0, time.Hour - 1, Wait, time.Hour, "", false},
		"due, to the nanosecond":    {Facts{State: State{Started: start}}, hour, false, 0, time.Hour, Stop, time.Hour, "", false},
		"left to its controller":    {Facts{NativeDeadline: native, State: State{Started: start}}, hour, false, 30 * time.Second, time.Hour, Wait, time.Hour + 30*time.Second, "", false},
		"backstop":                  {Facts{NativeDeadline: native, State: State{Started: start}}, hour, false, 30 * time.Second, time.Hour + 30*time.Second, Stop, time.Hour + 30*time.Second, "", false},
		"ignored by its controller": {Facts{NativeDeadline: native, DeadlineByCurfew: true, State: State{Started: start}}, hour, false, 30 * time.Second, time.Hour, Stop, time.Hour, "", false},
		"marked, no other acts":     {Facts{Exceeded: start.Add(time.Hour), Created: start, DeadlineByCurfew: true, State: State{Finished: true, Outcome: Failed}}, hour, false, 30 * time.Second, time.Hour, Stop, time.Hour, "", false},
		"unknown to its controller": {Facts{State: State{Started: start}}, hour, false, 30 * time.Second, time.Hour, Stop, time.Hour, "", false},
		"dry-run":                   {Facts{State: State{Started: start}}, hour, true, 0, time.Hour, Stop, time.Hour, "", false},
		"no deadline":               {Facts{State: State{Started: start}}, Value{}, false, 0, 9 * time.Hour, Keep, 0, "has no deadline", false},
		"not started":               {Facts{}, hour, false, 0, 9 * time.Hour, Keep, 0, "has not started", false},
		"suspended":                 {Facts{State: State{Suspended: true}}, hour, false, 0, 9 * time.Hour, Keep, 0, "is suspended", false},
		"suspended with a start":    {Facts{State: State{Suspended: true, Started: start}}, hour, false, 0, 9 * time.Hour, Keep, 0, "is suspended", false},
		"finished":                  {Facts{State: State{Started: start, Finished: true, Outcome: Succeeded}}, hour, false, 0, 9 * time.Hour, Keep, 0, "has finished", false},
		"failed by itself":          {Facts{State: State{Started: start, Finished: true, Outcome: Failed}}, hour, false, 0, 9 * time.Hour, Keep, 0, "has finished", false},
		"marked: see what runs on":  {Facts{Exceeded: start.Add(2 * time.Hour), State: State{Started: start, Finished: true, Outcome: Failed}}, hour, false, 0, 2 * time.Hour, Stop, 2 * time.Hour, "", false},
		"marked by its controller":  {Facts{Exceeded: start.Add(time.Hour), State: State{Started: start, Finished: true, Outcome: Failed}}, hour, false, 30 * time.Second, time.Hour, Wait, time.Hour + 30*time.Second, "", false},
		"marked, has no deadline":   {Facts{Exceeded: start, State: State{Started: start, Finished: true, Outcome: Failed}}, Value{}, false, 0, 9 * time.Hour, Keep, 0, "has no deadline", false},
		"marked before it":          {Facts{Exceeded: start.Add(time.Second), State: State{Started: start, Finished: true, Outcome: Failed}}, hour, false, 0, time.Minute, Wait, time.Hour, "", false},
		"suspended by Curfew":       {Facts{Exceeded: start.Add(time.Hour), Created: start, State: State{Suspended: true}}, hour, false, 0, time.Hour, Stop, time.Hour, "", false},
		"suspended, no deadline":    {Facts{Exceeded: start.Add(time.Hour), Created: start, State: State{Suspended: true}}, Value{}, false, 0, time.Hour, Keep, 0, "has no deadline", false},
		"unreadable value": {Facts{State: State{Started: start}}, Value{Set: true, Err: errors.New("soon is no duration"), Path: "metadata.annotations"}, false, 0,
			9 * time.Hour, Keep, 0, "its deadline cannot be used", true},
		"unreadable state": {Facts{StateError: errors.New("spec.state.finished: no such key"), State: State{Started: start}}, hour, false, 0, 9 * time.Hour, Keep, 0,
			"its state cannot be read", true},
		"protected":             {Facts{Annotations: map[string]string{AnnotationProtect: "true"}, State: State{Started: start}}, hour, false, 0, 9 * time.Hour, Keep, 0, "is protected by annotation curfew.dev/protect", false},
		"marked, protected":     {Facts{Exceeded: start, Annotations: map[string]string{AnnotationProtect: "true"}, State: State{Finished: true, Outcome: Failed}}, hour, false, 0, 9 * time.Hour, Keep, 0, "is protected by annotation curfew.dev/protect", false},
		"another manager's":     {Facts{ManagedBy: "kueue.x-k8s.io/multikueue", State: State{Started: start}}, hour, false, 0, 9 * time.Hour, Keep, 0, "is managed by kueue.x-k8s.io/multikueue", false},
		"its own controller's":  {Facts{ManagedBy: "example.com/run", State: State{Started: start}}, hour, false, 0, time.Hour, Stop, time.Hour, "", false},
		"being deleted":         {Facts{Deleting: true, State: State{Started: start}}, hour, false, 0, 9 * time.Hour, Keep, 0, "is being deleted already", false},
		"started in the future": {Facts{State: State{Started: start.Add(time.Hour)}}, hour, false, 0, time.Hour, Wait, 2 * time.Hour, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := c.facts
			facts.Profile = kind
			got := JudgeDeadline(&facts, &Effective{Deadline: c.value, DryRun: c.dryRun}, c.grace, start.Add(c.after))
			if got.Action != c.action || got.Reason != c.reason || (got.Err != nil) != c.err || got.DryRun != (c.dryRun && c.action != Keep) {
				t.Fatalf("got %+v, want %s, %q, error %v", got, c.action, c.reason, c.err)
			}
			if c.action == Keep {
				return
			}
			if want := start.Add(c.expiry); !got.Expiry.Equal(want) {
				t.Errorf("due at %s, want %s", got.Expiry, want)
			}
			trigger := TriggerDeadline
			if !facts.Exceeded.IsZero() {
				trigger = TriggerDeadlineCheck
			}
			if got.Trigger != trigger || got.Source != hour.Source || !got.Live {
				t.Errorf("trigger %s, source %s, live %v; want %s, %s, true", got.Trigger, got.Source, got.Live, trigger, hour.Source)
			}
		})
	}
}

// Who failed an object, and when, is read from any list of conditions; what does not say so plainly
// is nobody's mark (S6).
func TestExceededAt(t *testing.T) {
	condition := func(reason, status, at string) map[string]any {
		return map[string]any{"type": "Failed", "reason": reason, "status": status, "lastTransitionTime": at}
	}
	const at = "2026-05-04T12:00:00Z"
	for name, c := range map[string]struct {
		conditions any
		want       bool
	}{
		"marked":         {[]any{map[string]any{"type": "Ready"}, condition("DeadlineExceeded", "True", at)}, true},
		"taken back":     {[]any{condition("DeadlineExceeded", "False", at)}, false},
		"another reason": {[]any{condition("BackoffLimitExceeded", "True", at)}, false},
		"without a time": {[]any{condition("DeadlineExceeded", "True", "")}, false},
		"no list":        {"DeadlineExceeded", false},
		"no conditions":  {[]any{"DeadlineExceeded", nil}, false},
		"nothing":        {nil, false},
	} {
		got := exceededAt(map[string]any{"status": map[string]any{"conditions": c.conditions}})
		if got.IsZero() == c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if !exceededAt(map[string]any{}).IsZero() {
		t.Error("no status, and yet marked")
	}
}

// Curfew recognises its own suspension until the spec changes: an author who resumes the object and
// suspends it again has suspended it for a reason of their own.
func TestSuspendedAt(t *testing.T) {
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for record, want := range map[string]time.Time{
		SuspensionRecord(at, 4): at,
		SuspensionRecord(at, 3): {},
		"2026-05-04T12:00:00Z":  {},
		"soon/4":                {},
		"":                      {},
	} {
		if got := suspendedAt(record, 4); !got.Equal(want) {
			t.Errorf("%q of generation 4: %s, want %s", record, got, want)
		}
	}
}
