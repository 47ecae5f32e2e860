package expire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/deletion"
)

// However often the process restarts, a minute never sees more than MaxDeletionsPerMinute and
// BackfillPerMinute.
func TestRestartAddsNoBudget(t *testing.T) {
	t.Run("deletions", func(t *testing.T) { addsNoBudget(t, false, func(o *Options) { o.MaxDeletionsPerMinute = 10 }) })
	t.Run("backfill", func(t *testing.T) { addsNoBudget(t, true, func(o *Options) { o.BackfillPerMinute = 10 }) })
}

func addsNoBudget(t *testing.T, backfill bool, limit func(*Options)) {
	bubble(t, limit, func(t *testing.T, e *Engine, s *store, kind Kind) {
		s.backfill = backfill
		for i := range 25 {
			s.track(e, kind, i, time.Now())
		}
		left := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.objects)
		}
		pass(59 * time.Second)
		if n := left(); n != 25 {
			t.Errorf("%d deleted in the first minute, in which the process before may have used the budget up", 25-n)
		}
		pass(3 * time.Second)
		if n := left(); n != 15 {
			t.Errorf("%d deleted after a minute, want 10", 25-n)
		}
		pass(3 * time.Minute)
		if n := left(); n != 0 {
			t.Errorf("%d left in the end", n)
		}
	})
}

// An action that refuses before it sends anything uses up no rate, and a later 404 is no
// unconfirmed deletion: held Pods must not stop everybody else's deletions.
func TestUnsentRequestsUseNoRate(t *testing.T) {
	w, outcomes, _ := ready(t, func(o *Options) { o.MaxDeletionsPerMinute, o.BackfillPerMinute = 3, 3 })
	trigger := w.engine.kinds[w.kind].trigger
	sends, refuses := trigger.Action, true
	trigger.Action = actionFunc(func(ctx context.Context, due deletion.Due) deletion.Answer {
		if refuses && strings.HasPrefix(due.Name, "held") {
			return deletion.Answer{Outcome: deletion.Refused, Err: errors.New("PodTallies are not known")}
		}
		return sends.Do(ctx, due)
	})
	w.dueSoon(5, "held", func(o *Entry) { o.Backfill, o.Source, o.Expiry = true, "policy/p", epoch.Add(-time.Hour) })
	w.after(time.Second)
	w.dueSoon(3, "other", nil)
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 3 || n[Refused] < 5 {
		t.Errorf("%v: want 3 deleted in the minute in which 5 were refused unsent", n)
	}
	refuses, *outcomes = false, nil
	for i := range 5 {
		w.erase(w.things[fmt.Sprint("held", i)])
	}
	w.every(5, time.Minute)
	if n := count(*outcomes); n[AlreadyGone] != 5 || n[Unconfirmed] != 0 {
		t.Errorf("%v: want 5 that were gone already", n)
	}
}

// What another action deletes comes out of the same budget, and one that deletes nothing needs none
// of it.
func TestReserve(t *testing.T) {
	w, outcomes, _ := ready(t, func(o *Options) { o.MaxDeletionsPerMinute = 3 })
	acted := 0
	w.deadline = actionFunc(func(context.Context, deletion.Due) deletion.Answer {
		acted++
		return deletion.Answer{Outcome: deletion.Done}
	})
	runs, err := w.engine.RegisterKind(KindOptions{Type: deletion.Type{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"}, Kind: "Run", Namespaced: true}, Trigger: "deadline", Judge: w.judge})
	must(t, err)
	first, ok := w.engine.Reserve()
	second, ok2 := w.engine.Reserve()
	if !ok || !ok2 {
		t.Fatal("there is room for three")
	}
	first(true)
	second(false) // It did not happen.
	w.dueSoon(5, "j", nil)
	for _, name := range []string{"run-a", "run-b", "run-c", "run-d", "run-e"} {
		x := w.create(name, time.Second, false)
		w.finish(x)
		o := w.object(x)
		o.Kind = runs
		w.engine.Upsert(o)
	}
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 2 || acted != 5 {
		t.Errorf("%v, acted %d times: want 2 deleted beside the one that was reserved, and all 5 acted upon", n, acted)
	}
	if _, ok := w.engine.Reserve(); ok {
		t.Error("there is no room for a fourth")
	}
	chosen, run := w.object(w.create("chosen", 0, false)), newLedger(actionFunc(func(context.Context, deletion.Due) deletion.Answer {
		return deletion.Answer{Outcome: deletion.Done}
	}))
	chosen.Kind, chosen.Expiry = cleanups(t, w.engine), epoch
	run.judge = func(o Entry) (Judgement, error) { return Judgement{Verdict: Track, Object: o}, nil }
	w.delete(run, chosen)
	const held = `curfew_rate_limited_objects{limit="deletions"}`
	if n := metricValue(t, w.engine, held); n != 4 {
		t.Errorf("the rate holds %v objects, want 3 Jobs and what a cleanup policy chose", n)
	}
	w.advance(61 * time.Second)
	if _, ok := w.engine.Reserve(); !ok {
		t.Error("there is room again after a minute")
	}
	w.every(3, time.Minute)
	if n := metricValue(t, w.engine, held); n != 0 || run.results[Deleted] != 1 {
		t.Errorf("the rate holds %v objects in the end, and the policy deleted %v", n, run.results)
	}
}

// A backlog that takes up the budget for hours leaves room for deadlines, and they leave room for
// the backlog.
func TestBacklogAndReserveShareTheBudget(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxDeletionsPerMinute = 20 }, func(t *testing.T, e *Engine, s *store, kind Kind) {
		for i := range 1000 {
			s.track(e, kind, i, time.Now())
		}
		pass(70 * time.Second)
		reserved := 0
		for range 120 { // Ten minutes: a Stopper looks every 5 s and deletes what it may.
			pass(5 * time.Second)
			for range 50 {
				settle, ok := e.Reserve()
				if !ok {
					break
				}
				settle(true)
				reserved++
			}
		}
		s.mu.Lock()
		deleted := 1000 - len(s.objects)
		s.mu.Unlock()
		if reserved < 80 || deleted < 80 || reserved+deleted > 12*20 {
			t.Errorf("%d reserved and %d deleted in 11 minutes, want a share of 20 a minute for both", reserved, deleted)
		}
		pass(10 * time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if now := 1000 - len(s.objects); now-deleted < 180 {
			t.Errorf("%d deleted in 10 minutes in which nothing was reserved, want 20 a minute", now-deleted)
		}
	})
}
