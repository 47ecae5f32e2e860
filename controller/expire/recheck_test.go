package expire

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// keeps has the kind's Judge keep everything, and counts how often it is asked.
func (w *world) keeps() *int {
	asked := 0
	w.engine.kinds[w.kind].opts.Judge = func(context.Context, Entry) (Judgement, error) {
		asked++
		return Judgement{Verdict: Keep}, nil
	}
	return &asked
}

// Objects that were judged before a change are judged again before their DELETE, for any source; no
// other objects are.
func TestChangeTakesEffectForTheNextDelete(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		asked  int
	}{
		"its namespace":                 {func(w *world) { w.engine.RecheckNamespace("ns") }, 3},
		"another namespace":             {func(w *world) { w.engine.RecheckNamespace("other") }, 0},
		"its kind":                      {func(w *world) { w.engine.RecheckKinds(w.kind) }, 3},
		"another kind":                  {func(w *world) { w.engine.RecheckKinds(w.labels.kind) }, 0},
		"its kind in its namespace":     {func(w *world) { w.engine.RecheckIn("ns", w.kind) }, 3},
		"another kind in its namespace": {func(w *world) { w.engine.RecheckIn("ns", w.labels.kind) }, 0},
		"its kind in another namespace": {func(w *world) { w.engine.RecheckIn("other", w.kind) }, 0},
		"too many namespaces of its kind": {func(w *world) {
			for i := range maxChanges + 1 {
				w.engine.RecheckIn(fmt.Sprint("ns-", i), w.kind)
			}
		}, 3},
		"too many namespaces of another kind": {func(w *world) {
			for i := range maxChanges + 1 {
				w.engine.RecheckIn(fmt.Sprint("ns-", i), w.labels.kind)
			}
		}, 0},
		"too many namespaces of its kind and another": {func(w *world) {
			for i := range maxChanges/2 + 1 {
				w.engine.RecheckIn(fmt.Sprint("ns-", i), w.kind, w.labels.kind)
			}
		}, 3},
		"too many namespaces of another kind, after its own": {func(w *world) {
			w.engine.RecheckIn("ns", w.kind)
			for i := range maxChanges + 1 {
				w.engine.RecheckIn(fmt.Sprint("ns-", i), w.labels.kind)
			}
		}, 3},
		// A feed has judged one of them since: its DELETE costs no live read any more.
		"judged after the change": {func(w *world) {
			w.engine.RecheckNamespace("ns")
			w.engine.Upsert(w.object(w.things["j0"]))
		}, 2},
		"too many namespaces to remember": {func(w *world) {
			for i := range maxChanges + 1 {
				w.engine.RecheckNamespace(fmt.Sprint("ns-", i))
			}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			w.dueSoon(3, "j", nil)
			asked := w.keeps()
			test.change(w)
			namespacesIn(t, w.engine)
			w.after(time.Second)
			if n := count(*outcomes); *asked != test.asked || n[Deleted] != 3-test.asked {
				t.Errorf("asked %d times, %v; want %d times, and the others deleted", *asked, n, test.asked)
			}
		})
	}
}

// namespacesIn is how many namespaces the changes remember.
func namespacesIn(t *testing.T, e *Engine) int {
	t.Helper()
	n := len(e.changes.last.namespaces)
	for _, k := range e.kinds[1:] {
		n += len(k.last.namespaces)
	}
	if n > maxChanges || n != e.changes.remembered {
		t.Errorf("%d namespaces are remembered, %d counted: want at most %d", n, e.changes.remembered, maxChanges)
	}
	return n
}

// The changes of a kind are forgotten with the kind, or once the whole kind has changed.
func TestChangesAreForgotten(t *testing.T) {
	for name, forget := range map[string]func(e *Engine, kind Kind){
		"with the kind":         (*Engine).ForgetKind,
		"by a change of it all": func(e *Engine, kind Kind) { e.RecheckKinds(kind) },
		"by Hold":               func(e *Engine, kind Kind) { e.Hold(kind, true) },
	} {
		w, _, _ := ready(t, nil)
		w.engine.RecheckIn("ns", w.kind)
		forget(w.engine, w.kind)
		if n := namespacesIn(t, w.engine); n != 0 {
			t.Errorf("%s: %d are left", name, n)
		}
	}
}

// A feed judged an object by what its cache showed before the change, and tells it afterwards.
func TestStaleJudgementDoesNotUndoAChange(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.engine.RecheckNamespace("elsewhere")
	epoch := w.engine.Epoch()
	x := w.create("j", time.Second, false)
	w.finish(x)
	w.engine.Upsert(w.object(x)) // by an older judgement still
	w.engine.RecheckNamespace("ns")
	o := w.object(x)
	o.Epoch = epoch
	w.engine.Upsert(o)
	asked := w.keeps()
	w.after(time.Second)
	if n := count(*outcomes); *asked != 1 || n[Deleted] != 0 {
		t.Errorf("asked %d times, %v; want it kept", *asked, n)
	}
}

// A worker has taken an object up and has not sent its DELETE when the change comes.
func TestChangeReachesAWorkerThatHasNotSent(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", nil)
	asked := w.keeps()
	w.advance(time.Second)
	r := w.engine.read()
	w.engine.mu.Lock()
	now, _ := w.engine.checkClock(r)
	j := w.engine.next(now, r)
	w.engine.unlock()
	w.engine.RecheckNamespace("ns")
	res := w.engine.attempt(t.Context(), j)
	w.engine.mu.Lock()
	w.engine.finish(j, res, r, false)
	w.engine.unlock()
	if n := count(*outcomes); *asked != 1 || n[Kept] != 1 || w.deletes != 0 {
		t.Errorf("asked %d times, %v, %d DELETEs; want it kept", *asked, n, w.deletes)
	}
}

// The change comes while the live read that does not show it is under way.
func TestChangeDuringTheLiveRead(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", func(o *Entry) { o.Live = true })
	asked := 0
	w.engine.kinds[w.kind].opts.Judge = func(ctx context.Context, o Entry) (Judgement, error) {
		if asked++; asked > 1 {
			return Judgement{Verdict: Keep}, nil
		}
		w.engine.RecheckNamespace("ns")
		return w.judge(ctx, o)
	}
	w.after(time.Second)
	if w.deletes != 0 {
		t.Fatal("deleted by a judgement from before the change")
	}
	w.after(time.Second)
	if n := count(*outcomes); asked != 2 || n[Kept] != 1 {
		t.Errorf("asked %d times, %v; want another look a second later", asked, n)
	}
}

// A corrected profile: what its predecessor judged is deleted only if the new rules say so, too.
func TestNewRulesAreAskedBeforeAnythingIsListed(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(3, "j", nil)
	opts := *w.engine.kinds[w.kind].opts
	asked := 0
	opts.Judge = func(context.Context, Entry) (Judgement, error) { asked++; return Judgement{Verdict: Keep}, nil }
	_, err := w.engine.RegisterKind(opts)
	must(t, err)
	w.after(time.Minute)
	if n := count(*outcomes); n[Deleted] != 0 || asked != 3 {
		t.Errorf("%v, and the new judge was asked %d times", n, asked)
	}
}

// Between a change of its profile and the new feed nothing of a kind is deleted, and nothing is
// forgotten.
func TestHold(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(3, "j", nil)
	w.advance(time.Second)
	r := w.engine.read()
	w.engine.mu.Lock()
	now, _ := w.engine.checkClock(r)
	j := w.engine.next(now, r)
	w.engine.unlock()
	w.engine.Hold(w.kind, true)
	res := w.engine.attempt(t.Context(), j) // by the old rules, which do not know of it
	w.engine.mu.Lock()
	w.engine.finish(j, res, r, false)
	w.engine.unlock()
	w.after(time.Minute)
	if n := count(*outcomes); w.deletes != 0 || len(n) != 0 || w.engine.Tracked() != 3 {
		t.Fatalf("%v, %d DELETEs, %d tracked: want everything to wait", n, w.deletes, w.engine.Tracked())
	}
	w.engine.Hold(w.kind, false)
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 3 {
		t.Errorf("%v, want all deleted after the hold", n)
	}
}

// A feed that waits for a permission in one namespace holds its own objects, and no others.
func TestHoldOfOneNamespace(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	opts := *w.engine.kinds[w.kind].opts
	opts.Scope = "other"
	other := registered(t, w.engine, opts)
	w.dueSoon(2, "held", nil)
	w.dueSoon(3, "free", func(o *Entry) { o.Kind = other })
	w.engine.Hold(w.kind, true)
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 3 || w.things["held0"] == nil || w.things["held1"] == nil {
		t.Fatalf("%v while the first scope is held, want all of the other one", n)
	}
	w.engine.Hold(w.kind, false)
	w.pump()
	if n := count(*outcomes); n[Deleted] != 5 {
		t.Errorf("%v after the hold", n)
	}
}

// S3: two goroutines of a feed judge one state of an object. The first read the settings of the
// namespace before they changed, and its judgement comes last. It changes nothing, and neither does
// one of another state that is older.
func TestOlderJudgementComesLast(t *testing.T) {
	for name, late := range map[string]func(e *Engine, o Entry){
		"no TTL":           func(e *Engine, o Entry) { e.Cancel(o.Kind, o.UID, o.ResourceVersion, o.Epoch) },
		"a TTL of 30 days": func(e *Engine, o Entry) { o.Expiry = o.Expiry.Add(30 * 24 * time.Hour); e.Upsert(o) },
	} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			x := w.create("j", time.Second, false)
			w.finish(x)
			w.events = nil
			older := w.object(x)
			older.Epoch = w.engine.Epoch()
			w.engine.RecheckIn("ns", w.kind)
			newer := w.object(x)
			newer.Epoch = w.engine.Epoch()
			w.engine.Upsert(newer)
			late(w.engine, older)
			w.after(time.Hour)
			if n := count(*outcomes)[Deleted]; n != 1 {
				t.Errorf("an hour after its expiry: %d deleted, %d tracked", n, w.engine.Tracked())
			}
		})
	}
}
