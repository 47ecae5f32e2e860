package expire

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/deletion"
)

// scripted is an action that returns one result after another, and Done after the last.
type scripted struct {
	results []deletion.Answer
	calls   []deletion.Due
}

func (a *scripted) Do(_ context.Context, due deletion.Due) deletion.Answer {
	a.calls = append(a.calls, due)
	if len(a.results) == 0 {
		return deletion.Answer{Outcome: deletion.Done}
	}
	next := a.results[0]
	a.results = a.results[1:]
	return next
}

func failure(code int, origin deletion.Origin) deletion.Answer {
	return deletion.Failure(code, origin, deletion.Describe(code, "", ""))
}

var runs = deletion.Type{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"}, Kind: "Run", Namespaced: true}

func keep(context.Context, Entry) (Judgement, error) { return Judgement{Verdict: Keep}, nil }

// acts registers a kind whose deadline is carried out by a, and tracks one object of it.
func (w *world) acts(t *testing.T, a deletion.Action, judge Judge) Entry {
	t.Helper()
	w.deadline = a
	kind, err := w.engine.RegisterKind(KindOptions{Type: runs, Trigger: "deadline", Judge: judge})
	must(t, err)
	object := Entry{Kind: kind, Namespace: "ns", Name: "r", UID: "u", ResourceVersion: "7", Expiry: epoch.Add(time.Second), Source: "object"}
	w.engine.Upsert(object)
	return object
}

// An action that does not delete is called again when it asks for that, and never within the same
// second. Then the entry rests until it changes, and never counts as deleted. Failures are tried
// again without end.
func TestAction(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	a := &scripted{results: []deletion.Answer{
		{Outcome: deletion.Again, After: time.Millisecond, Latency: time.Millisecond},
		{Outcome: deletion.Again, After: 5 * time.Second},
		failure(http.StatusInternalServerError, deletion.FromResource),
		{Outcome: deletion.Done},
	}}
	object := w.acts(t, a, keep)
	calls := func(after time.Duration, want int) {
		t.Helper()
		w.after(after)
		if len(a.calls) != want {
			t.Fatalf("%d calls at %s, want %d", len(a.calls), w.server.Sub(epoch), want)
		}
	}
	calls(999*time.Millisecond, 0)
	calls(time.Millisecond, 1)
	if got := a.calls[0]; got.UID != "u" || got.ResourceVersion != "7" || !got.Expiry.Equal(object.Expiry) ||
		got.Kind != "Run" || got.Trigger != "deadline" || got.Source != "object" {
		t.Errorf("it was given %+v", got)
	}
	calls(999*time.Millisecond, 1)
	calls(time.Millisecond, 2)
	calls(4999*time.Millisecond, 2)
	calls(time.Millisecond, 3)
	calls(2*time.Second, 4) // the failure
	calls(time.Hour, 4)     // at rest
	if w.deletes != 0 {
		t.Errorf("%d DELETEs were sent", w.deletes)
	}
	if n := count(*outcomes); n[Deleted] != 0 || n[Failed] != 1 || len(*outcomes) != 1 {
		t.Errorf("outcomes %v: want the one failure and nothing else", n)
	}
	if w.engine.Tracked() != 1 {
		t.Errorf("%d tracked: it still exists", w.engine.Tracked())
	}
	// Another resourceVersion alone changes nothing; another phase, or another instant, does.
	next := func(version int, phase string, expiry time.Time) {
		object.ResourceVersion, object.Phase, object.Expiry = strconv.Itoa(version), phase, expiry
		w.engine.Upsert(object)
	}
	next(8, "", object.Expiry)
	calls(time.Minute, 4)
	next(9, "check", object.Expiry)
	calls(0, 5)
	next(10, "", w.server.Add(time.Second))
	calls(999*time.Millisecond, 5)
	calls(time.Millisecond, 6)
	w.engine.Remove(object.Kind, "u")
	if w.engine.Tracked() != 0 {
		t.Error("it is gone and still tracked")
	}
}

// Conflicts of an action that does not delete, and requests that it calls malformed, may be about a
// child of the object: it is always given the state that was judged, and no conflict disproves it.
func TestActionIsGivenTheJudgedState(t *testing.T) {
	w, _, _ := ready(t, nil)
	conflict, malformed := failure(http.StatusConflict, deletion.FromResource), failure(http.StatusBadRequest, deletion.FromResource)
	a := &scripted{results: []deletion.Answer{conflict, conflict, conflict, conflict, conflict, malformed}}
	judged := 0
	var object Entry
	object = w.acts(t, a, func(context.Context, Entry) (Judgement, error) {
		judged++
		return Judgement{Verdict: Track, Object: object}, nil
	})
	w.every(20, time.Second)
	if len(a.calls) != 7 || judged < 4 {
		t.Fatalf("%d calls and %d live reads, want 7 and 4 or more", len(a.calls), judged)
	}
	for i, call := range a.calls {
		if call.ResourceVersion != "7" || call.Disproved != 0 {
			t.Errorf("call %d has resourceVersion %q, disproved %d times; want 7 and 0", i, call.ResourceVersion, call.Disproved)
		}
	}
}

// In a dry run, an action that finds nothing to do is called again later, and nothing is reported.
func TestActionWithNothingToDoInADryRun(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	a := &scripted{results: []deletion.Answer{{Outcome: deletion.Again, After: 20 * time.Second}, {Outcome: deletion.Done}}}
	object := w.acts(t, a, keep)
	object.DryRun = true
	w.engine.Upsert(object)
	w.after(time.Second)
	if n := count(*outcomes); len(a.calls) != 1 || !a.calls[0].DryRun || len(n) != 0 {
		t.Errorf("%d calls, outcomes %v; want one call and none", len(a.calls), n)
	}
	w.after(20 * time.Second)
	if n := count(*outcomes); len(a.calls) != 2 || n[DryRun] != 1 {
		t.Errorf("%d calls, outcomes %v; want the second to be reported", len(a.calls), n)
	}
}

// An object that cannot be stopped is reported as such, in the words of the API server, after three
// refusals in a row. It is tried again and again, less and less often.
func TestStopIsRefused(t *testing.T) {
	var blocked []BlockedObject
	w, _, _ := ready(t, func(o *Options) { o.OnBlocked = func(b BlockedObject) { blocked = append(blocked, b) } })
	a := &scripted{}
	for range 100 {
		a.results = append(a.results, deletion.Failure(422, deletion.FromResource, deletion.Describe(422, "Invalid", "spec.x: field is immutable")))
	}
	w.acts(t, a, keep)
	gauge := `curfew_blocked_objects{reason="StopRefused"}`
	w.every(30*60, time.Second)
	if len(blocked) != 1 || blocked[0].Reason != ReasonStopRefused || blocked[0].Message != "it cannot be stopped: 422 Invalid: spec.x: field is immutable" {
		t.Errorf("reports %+v, want one of r", blocked)
	}
	if got := metricValue(t, w.engine, gauge); got != 1 {
		t.Errorf("%s is %v, want 1", gauge, got)
	}
	if n := len(a.calls); n < 8 || n > 20 {
		t.Errorf("%d attempts in half an hour, want them ever more rare", n)
	}
}
