package cleanup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// work has a run work in steps of a second, and yield after each.
func (t *turns) work(ctx context.Context, namespace string, seconds int) (waited time.Duration) {
	began := time.Now()
	turn, err := t.take(ctx, namespace)
	waited = time.Since(began)
	defer turn.end()
	for i := 0; i < seconds && err == nil && ctx.Err() == nil; i++ {
		time.Sleep(time.Second)
		err = turn.yield(ctx, false)
	}
	return waited
}

// Beside fifty huge runs a small one starts within a bounded time, and at once if all of them are
// of one other namespace.
func TestSmallRunsStartSoon(t *testing.T) {
	for name, c := range map[string]struct {
		namespaceOf func(i int) string
		within      time.Duration
	}{
		"of one other namespace":   {func(int) string { return "huge" }, slice + time.Second},
		"of the same namespace":    {func(int) string { return "small" }, 60 * time.Second},
		"of namespaces each of it": {func(i int) string { return string(rune('A' + i)) }, slice + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				turns := newTurns(clock.RealClock{}, runsAtOnce, runsAtOnce)
				var all sync.WaitGroup
				for i := range 50 {
					all.Go(func() { turns.work(ctx, c.namespaceOf(i), 1_000_000) })
				}
				time.Sleep(10*time.Minute + 100*time.Millisecond)
				if waited := turns.work(ctx, "small", 1); waited > c.within {
					t.Errorf("it waited for %s, want at most %s", waited, c.within)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// Runs of the same kind get the same time, and no namespace has more than its share.
func TestTurnsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		turns := newTurns(clock.RealClock{}, 2, 2)
		got := map[string]*atomic.Int64{}
		var all sync.WaitGroup
		for _, namespace := range []string{"crowd", "crowd", "crowd", "crowd", "crowd", "one"} {
			if got[namespace] == nil {
				got[namespace] = new(atomic.Int64)
			}
			seconds := got[namespace]
			all.Go(func() {
				turn, err := turns.take(ctx, namespace)
				for err == nil && ctx.Err() == nil {
					time.Sleep(time.Second)
					seconds.Add(1)
					err = turn.yield(ctx, false)
				}
				turn.end()
			})
		}
		all.Wait()
		if crowd, one := got["crowd"].Load(), got["one"].Load(); one < 580 || crowd < 580 {
			t.Errorf("five runs of a namespace got %d seconds, one of another %d: want the same", crowd, one)
		}
	})
}

// A namespace has at most its share even if no other wants a turn, and a run that waits for
// something else has none.
func TestShareAndAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		turns := newTurns(clock.RealClock{}, 3, 1)
		first, err := turns.take(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error)
		go func() {
			turn, err := turns.take(ctx, "a")
			second <- err
			turn.end()
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("a namespace has two turns")
		default:
		}
		if err := first.away(ctx, func() error { return <-second }); err != nil {
			t.Fatal(err)
		}
		first.end()
		first.end() // It is over already.
		if turns.free != 3 || len(turns.held) != 0 {
			t.Errorf("%d turns are free, held %v", turns.free, turns.held)
		}
		if _, err := turns.take(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if turn, err := turns.take(ctx, "a"); err == nil || len(turns.waiting) != 0 {
			t.Errorf("a turn of %+v after the end", turn)
		}
	})
}

// Runs that work through a long page let others have their turn, but at most pagesHeld of them wait
// with a page. No namespace keeps the first run of another waiting.
func TestYieldWithinAPage(t *testing.T) {
	for name, c := range map[string]struct {
		namespaceOf func(i int) string
		within      time.Duration
	}{
		"a namespace with all turns": {func(int) string { return "huge" }, 10 * time.Millisecond},
		"namespaces each of it":      {func(i int) string { return string(rune('A' + i)) }, slice + 10*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				turns, most := newTurns(clock.RealClock{}, 4, 4), 0
				var all sync.WaitGroup
				for i := range 6 {
					all.Go(func() {
						turn, err := turns.take(ctx, c.namespaceOf(i))
						for err == nil && ctx.Err() == nil {
							time.Sleep(10 * time.Millisecond)
							err = turn.yield(ctx, true)
						}
						turn.end()
					})
				}
				time.Sleep(time.Minute + time.Millisecond)
				for i := range 20 {
					if waited := turns.work(ctx, fmt.Sprint("small-", i), 1); waited > c.within {
						t.Errorf("it waited for %s, want at most %s", waited, c.within)
					}
					turns.mu.Lock()
					most = max(most, turns.inPage)
					turns.mu.Unlock()
				}
				if cancel(); most > pagesHeld {
					t.Errorf("%d runs wait with a page", most)
				}
				all.Wait()
			})
		})
	}
}

// Beyond pagesHeld, a run finishes its page before others get its turn.
func TestPagesHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		turns, most := newTurns(clock.RealClock{}, 4, 4), 0
		var pages atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				turn, err := turns.take(ctx, string(rune('A'+i)))
				for err == nil && ctx.Err() == nil {
					for j := 0; j < 10 && err == nil; j++ {
						time.Sleep(time.Second)
						turns.mu.Lock()
						most = max(most, turns.inPage)
						turns.mu.Unlock()
						err = turn.yield(ctx, true)
					}
					pages.Add(1)
					if err == nil {
						err = turn.yield(ctx, false)
					}
				}
				turn.end()
			})
		}
		all.Wait()
		if most != pagesHeld || turns.inPage != 0 || pages.Load() < 200 {
			t.Errorf("up to %d runs waited with a page, want %d; %d do now; %d pages are done", most, pagesHeld, turns.inPage, pages.Load())
		}
	})
}

// The first run of a namespace need not wait for the runs of another one, even if they never yield.
// Cleanup policies of the cluster share no turn.
func TestNoNamespaceHoldsAllTurns(t *testing.T) {
	c, err := New(Options{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Objects: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i := range runsAtOnce {
			_, err := c.turns.take(ctx, namespaceOf(fmt.Sprint("cleanuppolicies/huge/", i)))
			if (err == nil) != (i < runsShare) {
				t.Errorf("run %d of the namespace: %v", i, err)
			}
		}
		if _, err := c.turns.take(t.Context(), namespaceOf("cleanuppolicies/small/a")); err != nil {
			t.Error(err)
		}
	})
	if one, other := namespaceOf("clustercleanuppolicies/a"), namespaceOf("clustercleanuppolicies/b"); one == other {
		t.Errorf("two ClusterCleanupPolicies count as namespace %q", one)
	}
}

// A run that waits for deletions holds no page of objects: all of them are judged by then.
func TestNoPageIsHeldForDeletions(t *testing.T) {
	defer small(1)()
	c := newCluster(t)
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	cur := c.cur(p, start)
	r, err := c.controller().newRun(cur, &v1alpha1.CleanupRun{ID: runID(start, p.UID), Phase: v1alpha1.RunRunning, Generation: 1, ScheduledTime: metav1.NewTime(start)})
	if err != nil {
		t.Fatal(err)
	}
	c.answer = func(name string) *engine.Ending {
		if r.survey.Listed != 7 {
			t.Errorf("%s is deleted after %d objects of its page", name, r.survey.Listed)
		}
		return nil
	}
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.check("at once")
}

// Live judgements take turns like runs, and all judgements of an attempt at a batch share one
// budget (S10). Objects that it leaves undecided have failed. The next attempt has a budget of its
// own.
func TestLiveJudgementsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newCluster(t), tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
			s.Conditions = []v1alpha1.CleanupCondition{{Name: "cheap", Expression: `object.metadata.name != ""`}}
		})
		process := c.controller()
		r, err := process.newRun(c.cur(p, start), &v1alpha1.CleanupRun{})
		if err != nil {
			t.Fatal(err)
		}
		items := []v1alpha1.CleanupItem{{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "ci", Name: "tmp-1", UID: "uid-tmp-1"}}
		b := r.newBatch(newPage(v1alpha1.PolicyReference{}, "run", 1, false, items))
		b.budget = expression.NewBudget(1, "the budget is spent")
		var others []*turn
		for i := range judgingAtOnce {
			other, err := process.judging.take(t.Context(), fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, other)
		}
		judged := make(chan engine.Judgement, 1)
		judge := func() {
			judgement, err := b.Judge(t.Context(), engine.Entry{UID: "uid-tmp-1"})
			if err != nil {
				t.Error(err)
			}
			judged <- judgement
		}
		go judge()
		if synctest.Wait(); len(judged) > 0 {
			t.Error("judged without a turn")
		}
		others[0].end()
		if got := <-judged; got.Verdict != engine.Track {
			t.Errorf("the first: %+v, %s", got, items[0].Message)
		}
		go judge()
		if got := <-judged; got.Verdict != engine.Keep || items[0].Result != v1alpha1.ItemFailed || !strings.Contains(items[0].Message, "the budget is spent") {
			t.Errorf("the second: %+v, %s, %s", got, items[0].Result, items[0].Message)
		}
		r.accountUID = "account"
		if err := b.submit(t.Context(), b.order); err != nil || b.unconfirmed != nil || b.budget.Spent() {
			t.Errorf("the next attempt: %v, %v, and its budget is spent: %t", err, b.unconfirmed, b.budget.Spent())
		}
	})
}

// A live judgement has no place while it reads. Where it gets none in time, nothing is wrong with its
// object, unless the reads took the time (S10).
func TestLookupsHoldNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, places := newCluster(t), newTurns(clock.RealClock{}, 1, 1)
		place := &turn{of: places, namespace: "slow"}
		for range 2 {
			if err := place.judging(t.Context(), func() error {
				if places.free != 1 {
					t.Error("it reads with a place")
				}
				return nil
			}); err != nil || !place.held {
				t.Errorf("%v, held %t", err, place.held)
			}
		}
		process := c.controller()
		process.judging = places
		r, err := process.newRun(c.cur(tmpPolicy(t, nothing), start), &v1alpha1.CleanupRun{})
		if err != nil {
			t.Fatal(err)
		}
		items := []v1alpha1.CleanupItem{{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "ci", Name: "tmp-1", UID: "uid-tmp-1"}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := r.newBatch(newPage(v1alpha1.PolicyReference{}, "run", 1, false, items))
		if _, err := b.Judge(ctx, engine.Entry{UID: "uid-tmp-1"}); !errors.Is(err, engine.ErrNoSlot) {
			t.Errorf("without a place: %v", err)
		}
		late := func() error { <-ctx.Done(); return nil }
		if err := place.judging(ctx, late); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrNoSlot) {
			t.Errorf("after a slow read: %v", err)
		}
		if places.free != 1 || len(places.waiting) != 0 {
			t.Errorf("%d places are free, %d wait", places.free, len(places.waiting))
		}
	})
}

// An interrupted run has no turn while it finds out what it has deleted.
func TestSettlingTakesNoTurn(t *testing.T) {
	defer small(5)()
	c, p := newCluster(t), tmpPolicy(t, nothing)
	c.killAt = 7 // Some are deleted, and nothing is counted.
	_ = c.work(t.Context(), p)
	c.dead, c.killAt = false, 0
	process, cur, reads := c.controller(), c.cur(p, start), 0
	turns := newTurns(clock.RealClock{}, 1, 1)
	turn, err := turns.take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	cur.turn = turn
	c.unreadable = func() error {
		if reads++; turn.held {
			t.Error("it reads with a turn")
		}
		return nil
	}
	if err := process.finish(t.Context(), cur, true); err != nil || reads == 0 || !turn.held {
		t.Errorf("%v: %d reads, and it has the turn again: %t", err, reads, turn.held)
	}
	c.check("settled")
}
