package expire

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"curfew.dev/curfew/controller/deletion"
)

// ledger is a run that counts the outcomes of what it deletes.
type ledger struct {
	do       deletion.Action
	mu       sync.Mutex
	judge    func(o Entry) (Judgement, error)
	outcomes map[string]Ending
	results  map[Ending]int
	deleted  int
}

func newLedger(do deletion.Action) *ledger {
	return &ledger{do: do, outcomes: map[string]Ending{}, results: map[Ending]int{}}
}

func (l *ledger) Judge(_ context.Context, o Entry) (Judgement, error) { return l.judge(o) }

func (l *ledger) Do(ctx context.Context, due deletion.Due) deletion.Answer { return l.do.Do(ctx, due) }

func (l *ledger) Order() int { return 0 }

func (l *ledger) report(o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[o.Object.Name] = o.Result
	l.results[o.Result]++
	l.deleted += o.Deleted
}

// call is a call of Delete in a world.
type call struct {
	run *ledger
	*waiter
}

// delete has a run delete objects when the world is pumped.
func (w *world) delete(run *ledger, objects ...Entry) {
	for _, o := range objects {
		w.calls = append(w.calls, call{run, w.engine.lineUp(o, run)})
	}
}

// cleanups registers Jobs for a trigger of cleanups.
func cleanups(t *testing.T, e *Engine) Kind {
	t.Helper()
	e.triggers = append(e.triggers, &trigger{Trigger: Trigger{Name: "cleanup", Deletes: true}, id: uint8(len(e.triggers))})
	kind, err := e.RegisterKind(KindOptions{Type: jobs, Trigger: "cleanup", Judge: keep})
	must(t, err)
	return kind
}

// A cleanup run gets one outcome of each object: exact counts for its ledger. It is judged and
// deleted by the run, and what it deletes is not tracked any more.
func TestDelete(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	inner := w.engine.triggerNamed("ttl").Action
	run := newLedger(actionFunc(func(ctx context.Context, due deletion.Due) deletion.Answer {
		if due.Trigger != "cleanup" {
			t.Errorf("it was given %+v", due)
		}
		return inner.Do(ctx, due)
	}))
	run.judge = func(o Entry) (Judgement, error) {
		x := w.things[o.Name]
		o.ResourceVersion = fmt.Sprint(x.rv)
		switch {
		case o.Name == "busy":
			return Judgement{}, fmt.Errorf("reading its namespace: %w", ErrNoSlot)
		case x.ttl == time.Hour: // its own condition
			return Judgement{Verdict: Keep}, nil
		}
		return Judgement{Verdict: Track, Object: o}, nil
	}
	kind := cleanups(t, w.engine)
	w.hook = deleterFunc(func(_ context.Context, r Request) Response {
		x := w.things[r.Name]
		switch {
		case x == nil:
			return Response{Code: http.StatusNotFound, ObjectMissing: true}
		case r.Name == "refused":
			return Response{Code: http.StatusForbidden}
		case r.ResourceVersion != fmt.Sprint(x.rv):
			return Response{Code: http.StatusConflict}
		}
		w.erase(x)
		return Response{Code: http.StatusOK}
	})
	object := func(name string) Entry {
		x := w.things[name]
		if x == nil {
			x = w.create(name, -1, false)
		}
		return Entry{Kind: kind, Namespace: "ns", Name: name, UID: x.uid, ResourceVersion: fmt.Sprint(x.rv), Expiry: w.server, Source: "policy/p"}
	}
	tracked := w.create("tracked", time.Hour, false)
	w.finish(tracked)
	w.engine.Upsert(w.object(tracked))
	gone, changed, unlike, busy := object("gone"), object("changed"), object("unlike"), object("busy")
	w.erase(w.things["gone"])
	w.changed(w.things["changed"])
	w.changed(w.things["busy"])
	w.things["unlike"].ttl = time.Hour
	w.changed(w.things["unlike"])
	early := object("early")
	early.Expiry = w.server.Add(time.Minute)
	w.delete(run, object("a"), object("b"), object("tracked"), object("refused"))
	w.delete(run, gone, changed, unlike, busy, early, Entry{Kind: kind, Name: "nonsense"})
	w.pump()
	want := map[string]Ending{
		"a": Deleted, "b": Deleted, "tracked": Deleted, "changed": Deleted, "refused": Refused, "gone": AlreadyGone,
		"unlike": Kept, "early": Kept, "busy": Held, "nonsense": Held,
	}
	if fmt.Sprint(run.outcomes) != fmt.Sprint(want) || run.results[Deleted] != 4 || run.deleted != 4 {
		t.Errorf("%v, %v, %d deleted\nwant %v, and each once", run.outcomes, run.results, run.deleted, want)
	}
	if w.engine.Tracked() != 0 {
		t.Error("what a run deleted is still tracked for its TTL")
	}
	if got := metricValue(t, w.engine, `curfew_deletion_attempts_total{trigger="cleanup"}`); got != 9 { // two of them conflicts
		t.Errorf("curfew_deletion_attempts_total %v for cleanup, want 9", got)
	}
	for _, o := range *outcomes {
		if o.Trigger != "cleanup" {
			t.Errorf("outcome %+v, want trigger cleanup", o)
		}
	}
}

// Objects of runs yield to all tracked objects that are due.
func TestDeleteYields(t *testing.T) {
	var order []string
	sender := deleterFunc(func(_ context.Context, r Request) Response {
		order = append(order, r.Trigger)
		time.Sleep(time.Millisecond)
		return Response{Code: http.StatusOK}
	})
	trigger := deletes(sender)[0]
	o := Options{MaxConcurrency: 1}
	for _, name := range []string{"ttl", "cleanup"} {
		trigger.Name = name
		o.Triggers = append(o.Triggers, trigger)
	}
	run := newLedger(trigger.Action)
	run.judge = func(o Entry) (Judgement, error) { return Judgement{Verdict: Track, Object: o}, nil }
	running(t, o, sender, func(t *testing.T, e *Engine) {
		kinds := map[string]Kind{}
		for _, each := range o.Triggers {
			kinds[each.Name] = registered(t, e, KindOptions{Type: jobs, Trigger: each.Name, Judge: keep})
		}
		due := time.Now().Add(time.Minute)
		object := func(trigger string, i int) Entry {
			return Entry{Kind: kinds[trigger], Namespace: "ns", Name: "j", UID: uidOf(trigger, i), ResourceVersion: "7", Expiry: due, Source: "object"}
		}
		for i := range 5 {
			e.Upsert(object("ttl", i))
		}
		pass(time.Until(due) - time.Millisecond)
		for i := range 5 {
			o := object("cleanup", i)
			o.Expiry = time.Now()
			go func() { run.report(e.Delete(t.Context(), o, run)) }()
		}
		pass(time.Minute)
	})
	// One may have begun a millisecond before the others were due.
	if len(order) != 10 || slices.Contains(order[1:6], "cleanup") || run.results[Deleted] != 5 {
		t.Errorf("order %v, results %v; want 10, those of the run at the end, and 5 deleted", order, run.results)
	}
}

// A run that ends gets back what was not begun, and an engine that stops gives back everything.
func TestDeleteIsGivenBack(t *testing.T) {
	w, _, _ := ready(t, nil)
	kind, ttl := cleanups(t, w.engine), w.engine.triggerNamed("ttl").Action
	synctest.Test(t, func(t *testing.T) {
		ended, running := newLedger(ttl), newLedger(ttl)
		ctx, cancel := context.WithCancel(t.Context())
		del := func(ctx context.Context, run *ledger, name string) {
			o := Entry{Kind: kind, Namespace: "ns", Name: name, UID: uidOf(name, 0), ResourceVersion: "7", Expiry: w.server, Source: "policy/p"}
			run.report(w.engine.Delete(ctx, o, run))
		}
		go del(ctx, ended, "a")
		go del(ctx, ended, "b")
		go del(t.Context(), running, "c")
		synctest.Wait()
		cancel()
		synctest.Wait()
		if ended.results[Held] != 2 || running.results[Held] != 0 {
			t.Errorf("%v, %v: want the two of the run that ended to be held", ended.results, running.results)
		}
		w.engine.stop()
		synctest.Wait()
		del(t.Context(), running, "d")
		if running.results[Held] != 2 {
			t.Errorf("%v: want both to be held", running.results)
		}
	})
}
