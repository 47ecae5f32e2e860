package engine

import (
	"context"
	"fmt"
	"slices"
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
			checkRemembered(t, w.engine)
			w.advance(time.Second)
			w.pump()
			if n := count(*outcomes); *asked != test.asked || n[Deleted] != 3-test.asked {
				t.Errorf("asked %d times, %v; want %d times, and the others deleted", *asked, n, test.asked)
			}
		})
	}
}

// checkRemembered counts the namespaces that are remembered.
func checkRemembered(t *testing.T, e *Engine) {
	t.Helper()
	n := len(e.changes.last.namespaces)
	for _, k := range e.kinds[1:] {
		n += len(k.last.namespaces)
	}
	if n > maxChanges || n != e.changes.remembered {
		t.Errorf("%d namespaces are remembered, %d counted: want at most %d", n, e.changes.remembered, maxChanges)
	}
}

// The changes of a kind are forgotten with the kind, or once the whole kind has changed.
func TestChangesAreForgotten(t *testing.T) {
	for name, forget := range map[string]func(w *world){
		"with the kind":         func(w *world) { w.engine.ForgetKind(w.labels.kind) },
		"by a change of it all": func(w *world) { w.engine.RecheckKinds(w.labels.kind) },
		"by Hold":               func(w *world) { w.engine.Hold(w.labels.kind, true) },
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := ready(t, nil)
			w.engine.RecheckIn("ns", w.labels.kind)
			forget(w)
			if checkRemembered(t, w.engine); w.engine.changes.remembered != 0 {
				t.Errorf("%d are left", w.engine.changes.remembered)
			}
		})
	}
}

// The label's trigger has another entry of the same object.
func TestChangeTakesEffectForLabels(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.setLabel(w.create("j", -1, false), w.server.Add(time.Second))
	for range 3 {
		w.deliverLabel()
	}
	asked := 0
	w.engine.kinds[w.labels.kind].opts.Judge = func(context.Context, Entry) (Judgement, error) {
		asked++
		return Judgement{Verdict: Keep}, nil
	}
	w.engine.RecheckNamespace("ns")
	w.advance(time.Second)
	w.pump()
	if n := count(*outcomes); asked != 1 || n[Deleted] != 0 {
		t.Errorf("asked %d times, %v; want it kept", asked, n)
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
	w.advance(time.Second)
	w.pump()
	if n := count(*outcomes); *asked != 1 || n[Deleted] != 0 {
		t.Errorf("asked %d times, %v; want it kept", *asked, n)
	}
}

// Once a feed has judged an object after the change, its DELETE costs no live read any more.
func TestJudgementAfterTheChangeIsBelieved(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", nil)
	w.engine.RecheckNamespace("ns")
	o := w.object(w.things["j0"])
	o.Epoch = w.engine.Epoch()
	w.engine.Upsert(o)
	asked := w.keeps()
	w.advance(time.Second)
	w.pump()
	if n := count(*outcomes); *asked != 0 || n[Deleted] != 1 {
		t.Errorf("asked %d times, %v; want it deleted unasked", *asked, n)
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
	w.advance(time.Second)
	w.pump()
	if w.deletes != 0 {
		t.Fatal("deleted by a judgement from before the change")
	}
	w.advance(time.Second)
	w.pump()
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
	if _, err := w.engine.RegisterKind(opts); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Minute)
	w.pump()
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
	w.advance(time.Minute)
	w.pump()
	if n := count(*outcomes); w.deletes != 0 || len(n) != 0 || w.engine.Tracked() != 3 {
		t.Fatalf("%v, %d DELETEs, %d tracked: want everything to wait", n, w.deletes, w.engine.Tracked())
	}
	w.engine.Hold(w.kind, false)
	w.advance(time.Second)
	w.pump()
	if n := count(*outcomes); n[Deleted] != 3 {
		t.Errorf("%v, want all deleted after the hold", n)
	}
}

// A feed that waits for a permission in one namespace holds its own objects, and no others.
func TestHoldOfOneNamespace(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	opts := *w.engine.kinds[w.kind].opts
	opts.Scope = "other"
	other, err := w.engine.RegisterKind(opts)
	if err != nil {
		t.Fatal(err)
	}
	w.dueSoon(2, "held", nil)
	w.dueSoon(3, "free", func(o *Entry) { o.Kind = other })
	w.engine.Hold(w.kind, true)
	w.advance(time.Second)
	w.pump()
	deleted := func() (names []string) {
		for _, one := range *outcomes {
			if one.Result == Deleted {
				names = append(names, one.Object.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got := deleted(); !slices.Equal(got, []string{"free0", "free1", "free2"}) {
		t.Fatalf("deleted %q while the first scope is held, want all of the other one", got)
	}
	w.engine.Hold(w.kind, false)
	w.pump()
	if got := deleted(); !slices.Equal(got, []string{"free0", "free1", "free2", "held0", "held1"}) {
		t.Errorf("deleted %q after the hold", got)
	}
}

// A kind that is gone while it is held is not held when it comes back.
func TestForgottenKindIsNotHeld(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	opts := *w.engine.kinds[w.kind].opts
	w.engine.Hold(w.kind, true)
	w.engine.ForgetKind(w.kind)
	if _, err := w.engine.RegisterKind(opts); err != nil {
		t.Fatal(err)
	}
	w.dueSoon(1, "j", nil)
	w.advance(time.Second)
	w.pump()
	if n := count(*outcomes); n[Deleted] != 1 {
		t.Errorf("%v, want it deleted", n)
	}
}

func BenchmarkRecheckNamespace(b *testing.B) {
	w := newWorld(b.Fatalf)
	for i := range b.N {
		w.engine.RecheckNamespace(fmt.Sprint("ns-", i%100))
	}
}
