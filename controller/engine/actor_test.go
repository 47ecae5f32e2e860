package engine

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// actor does something else than DELETE, as told.
type actor struct {
	answers []Response
	calls   []Request
}

func (a *actor) Delete(_ context.Context, r Request) Response {
	a.calls = append(a.calls, r)
	if len(a.answers) == 0 {
		return Response{Code: http.StatusOK, Rest: true}
	}
	next := a.answers[0]
	a.answers = a.answers[1:]
	return next
}

// An Actor is asked in the place of a DELETE, again when it says so and never within the same second; then the entry rests until what
// it goes by changes, and is never taken for deleted. Failures are tried again without end.
func TestActor(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	a := &actor{answers: []Response{
		{Code: http.StatusOK, Again: time.Millisecond, Took: time.Millisecond},
		{Code: http.StatusOK, Again: 5 * time.Second},
		{Code: http.StatusInternalServerError},
		{Code: http.StatusOK, Rest: true},
	}}
	kind, err := w.engine.RegisterKind(KindOptions{
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"}, Kind: "Run", Namespaced: true, Lane: 3, Actor: a,
		Judge: func(context.Context, Object) (Judgement, error) { return Judgement{Verdict: Keep}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	object := Object{Kind: kind, Namespace: "ns", Name: "r", UID: "u", ResourceVersion: "7", Expiry: epoch.Add(time.Second), Trigger: "deadline", Source: "object"}
	w.engine.Upsert(object)
	calls := func(after time.Duration, want int) {
		t.Helper()
		w.advance(after)
		w.pump()
		if len(a.calls) != want {
			t.Fatalf("%d calls at %s, want %d", len(a.calls), w.server.Sub(epoch), want)
		}
	}
	calls(999*time.Millisecond, 0)
	calls(time.Millisecond, 1)
	if got := a.calls[0]; got.UID != "u" || got.ResourceVersion != "7" || !got.Expiry.Equal(object.Expiry) {
		t.Errorf("it was asked %+v", got)
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
		t.Errorf("%d tracked: it is not gone", w.engine.Tracked())
	}
	// Another resourceVersion is no news by itself; another trigger, or another instant, is.
	next := func(version int, trigger string, expiry time.Time) {
		object.ResourceVersion, object.Trigger, object.Expiry = strconv.Itoa(version), trigger, expiry
		w.engine.Upsert(object)
	}
	next(8, "deadline", object.Expiry)
	calls(time.Minute, 4)
	next(9, "deadline-check", object.Expiry)
	calls(0, 5)
	next(10, "deadline", w.server.Add(time.Second))
	calls(999*time.Millisecond, 5)
	calls(time.Millisecond, 6)
	w.engine.Remove(kind, "u")
	if w.engine.Tracked() != 0 {
		t.Error("it is gone and still tracked")
	}
}

// An object may wait for its deadline and for its TTL at once; that its Actor has acted does not delete it, and that it was deleted
// ends both.
func TestActorBesideADelete(t *testing.T) {
	w, _, _ := ready(t, nil)
	a := &actor{}
	x := w.create("j", 5*time.Second, false)
	w.finish(x)
	w.engine.Upsert(w.object(x))
	kind, err := w.engine.RegisterKind(KindOptions{
		Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true, Lane: 3, Actor: a,
		Judge: func(context.Context, Object) (Judgement, error) { return Judgement{Verdict: Keep}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := w.object(x)
	stop.Kind, stop.Expiry, stop.Trigger = kind, epoch.Add(time.Second), "deadline-check"
	w.engine.Upsert(stop)
	w.advance(time.Second)
	w.pump()
	if len(a.calls) != 1 || w.deletes != 0 {
		t.Fatalf("%d calls, %d DELETEs: want 1 and 0", len(a.calls), w.deletes)
	}
	w.advance(4 * time.Second)
	w.pump()
	if len(a.calls) != 1 || w.deletes != 1 {
		t.Fatalf("%d calls, %d DELETEs: want 1 and 1", len(a.calls), w.deletes)
	}
	w.advance(time.Hour)
	w.pump()
	if len(a.calls) != 1 || w.deletes != 1 {
		t.Errorf("%d calls, %d DELETEs after the end", len(a.calls), w.deletes)
	}
}

// The conflicts of an Actor, and what it calls malformed, may be about a child of the object: it is always told the state that was judged,
// and never a UID alone.
func TestActorIsToldTheStateThatWasJudged(t *testing.T) {
	w, _, _ := ready(t, nil)
	conflict, malformed := Response{Code: http.StatusConflict}, Response{Code: http.StatusBadRequest}
	a := &actor{answers: []Response{conflict, conflict, conflict, conflict, conflict, malformed, {Code: http.StatusOK, Rest: true}}}
	judged := 0
	var object Object
	kind, err := w.engine.RegisterKind(KindOptions{
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"}, Kind: "Run", Namespaced: true, Lane: 3, Actor: a,
		Judge: func(context.Context, Object) (Judgement, error) {
			judged++
			return Judgement{Verdict: Track, Object: object}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	object = Object{Kind: kind, Namespace: "ns", Name: "r", UID: "u", ResourceVersion: "7", Expiry: epoch.Add(time.Second), Trigger: "deadline", Source: "object"}
	w.engine.Upsert(object)
	for range 20 {
		w.advance(time.Second)
		w.pump()
	}
	if len(a.calls) != 7 || judged < 4 {
		t.Fatalf("%d calls and %d fresh looks, want 7 and 4 or more", len(a.calls), judged)
	}
	for i, call := range a.calls {
		if call.ResourceVersion != "7" {
			t.Errorf("call %d has resourceVersion %q, want 7", i, call.ResourceVersion)
		}
	}
}

// What an Actor's requests take is what the number of requests under way follows, as it follows DELETEs; a look that sends none says nothing.
func TestActorSetsThePace(t *testing.T) {
	w, _, _ := ready(t, nil)
	a := &actor{answers: []Response{
		{Code: http.StatusOK, Again: time.Second, Took: 20 * time.Millisecond},
		{Code: http.StatusOK, Again: time.Second},
		{Code: http.StatusTooManyRequests, Origin: FromServer},
	}}
	kind, err := w.engine.RegisterKind(KindOptions{
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"}, Kind: "Run", Namespaced: true, Lane: 3, Actor: a,
		Judge: func(context.Context, Object) (Judgement, error) { return Judgement{Verdict: Keep}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.engine.Upsert(Object{Kind: kind, Namespace: "ns", Name: "r", UID: "u", ResourceVersion: "7", Expiry: epoch.Add(time.Second), Trigger: "deadline", Source: "object"})
	for i, want := range []struct {
		samples int
		sum     time.Duration
		limit   int
	}{{1, 20 * time.Millisecond, concurrencyStart}, {1, 20 * time.Millisecond, concurrencyStart}, {0, 0, concurrencyStart / 2}} {
		w.advance(time.Second)
		w.pump()
		c := w.engine.conc
		if len(a.calls) != i+1 || c.count != want.samples || c.sum != want.sum || c.Limit() != want.limit {
			t.Errorf("after %d calls: %d samples of %s, and %d may be under way; want %+v", len(a.calls), c.count, c.sum, c.Limit(), want)
		}
	}
}
