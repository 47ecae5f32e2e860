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

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// crowd has runs of namespaces work in steps, and yield after each: within pages of so many steps,
// and between them. It returns the most runs that waited with a page, and how many steps each
// namespace had.
func (t *turns) crowd(ctx context.Context, all *sync.WaitGroup, runs int, namespaceOf func(i int) string, step time.Duration, page int) (most *atomic.Int64, steps map[string]*atomic.Int64) {
	most, steps = new(atomic.Int64), map[string]*atomic.Int64{}
	for i := range runs {
		namespace := namespaceOf(i)
		if steps[namespace] == nil {
			steps[namespace] = new(atomic.Int64)
		}
		had := steps[namespace]
		all.Go(func() {
			turn, err := t.take(ctx, namespace)
			for n := 1; err == nil && ctx.Err() == nil; n++ {
				time.Sleep(step)
				had.Add(1)
				t.mu.Lock()
				most.Store(max(most.Load(), int64(t.inPage)))
				t.mu.Unlock()
				err = turn.yield(ctx, n%page > 0)
			}
			turn.end()
		})
	}
	return most, steps
}

// Beside many huge runs a small one starts within a bounded time, and at once if all of them are of
// one other namespace. At most pagesHeld runs wait in the middle of a page.
func TestSmallRunsStartSoon(t *testing.T) {
	always := func(name string) func(int) string { return func(int) string { return name } }
	each := func(i int) string { return string(rune('A' + i)) }
	for name, c := range map[string]struct {
		runs, page  int
		namespaceOf func(i int) string
		step        time.Duration
		within      time.Duration
		least       int64 // that wait with a page
	}{
		"of one other namespace":                   {50, 1, always("huge"), time.Second, slice + time.Second, 0},
		"of the same namespace":                    {50, 1, always("small"), time.Second, 60 * time.Second, 0},
		"of namespaces each of it":                 {50, 1, each, time.Second, slice + time.Second, 0},
		"of one other namespace, with large pages": {6, 1e6, always("huge"), 10 * time.Millisecond, 10 * time.Millisecond, 1},
		"of namespaces each of it, large pages":    {6, 1e6, each, 10 * time.Millisecond, slice + 10*time.Millisecond, 1},
		"too many large pages":                     {40, 10, each, time.Second, 20 * time.Second, pagesHeld},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				turns := newTurns(clock.RealClock{}, runsAtOnce, runsAtOnce)
				var all sync.WaitGroup
				most, _ := turns.crowd(ctx, &all, c.runs, c.namespaceOf, c.step, c.page)
				time.Sleep(10*time.Minute + time.Millisecond)
				began := time.Now()
				turn, err := turns.take(ctx, "small")
				if waited := time.Since(began); err != nil || waited > c.within {
					t.Errorf("it waited for %s, want at most %s: %v", waited, c.within, err)
				}
				turn.end()
				cancel()
				all.Wait()
				if held := most.Load(); held < c.least || held > pagesHeld || turns.inPage != 0 || turns.free != runsAtOnce {
					t.Errorf("up to %d runs waited with a page, want %d to %d; %d do in the end, and %d turns are free", held, c.least, pagesHeld, turns.inPage, turns.free)
				}
			})
		})
	}
}

// Namespaces get the same time, however many runs they have.
func TestTurnsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		_, seconds := newTurns(clock.RealClock{}, 2, 2).crowd(ctx, &all, 6, func(i int) string { return []string{"crowd", "one"}[i/5] }, time.Second, 1)
		all.Wait()
		if crowd, alone := seconds["crowd"].Load(), seconds["one"].Load(); alone < 580 || crowd < 580 {
			t.Errorf("five runs of a namespace got %d seconds, one of another %d: want the same", crowd, alone)
		}
	})
}

// The first run of a namespace need not wait for the runs of another one, even if they never yield.
// Cleanup policies of the cluster share no turn.
func TestNoNamespaceHoldsAllTurns(t *testing.T) {
	c := New(Options{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Objects: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())})
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
	if name, other := namespaceOf("clustercleanuppolicies/a"), namespaceOf("clustercleanuppolicies/b"); name == other {
		t.Errorf("two ClusterCleanupPolicies count as namespace %q", name)
	}
}

// A run that waits for deletions holds no page of objects: all of them are judged by then.
func TestNoPageIsHeldForDeletions(t *testing.T) {
	defer small(1)()
	c := newCluster(t)
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	r, err := c.controller().newRun(c.cur(p, start), &v1alpha1.CleanupRun{ID: runID(start, p.UID), Phase: v1alpha1.RunRunning, Generation: 1, ScheduledTime: metav1.NewTime(start)})
	must(t, err)
	c.answer = func(name string) *expire.Ending {
		if r.survey.Listed != 7 {
			t.Errorf("%s is deleted after %d objects of its page", name, r.survey.Listed)
		}
		return nil
	}
	must(t, r.start(t.Context()))
	c.check("at once")
}

// liveBatch is a batch with one object, as its run judges it live.
func (c *cluster) liveBatch(process *Controller, condition v1alpha1.Expression) *batch {
	c.t.Helper()
	r, err := process.newRun(c.cur(tmpPolicy(c.t, func(s *v1alpha1.CleanupSpec) {
		s.Conditions = []v1alpha1.CleanupCondition{{Name: "cheap", Expression: condition}}
	}), start), &v1alpha1.CleanupRun{})
	must(c.t, err)
	r.accountUID = "account"
	items := []v1alpha1.CleanupItem{{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "ci", Name: "tmp-1", UID: "uid-tmp-1"}}
	return r.newBatch(newPage(v1alpha1.PolicyReference{}, "run", 1, false, items))
}

// All live judgements of an attempt at a batch share one budget (S10). Objects that it leaves
// undecided have failed. The next attempt has a budget of its own.
func TestLiveJudgementsAreLimited(t *testing.T) {
	c := newCluster(t)
	b := c.liveBatch(c.controller(), `object.metadata.name != ""`)
	b.budget = expression.NewBudget(1, "the budget is spent")
	for i, want := range []expire.Verdict{expire.Track, expire.Keep} {
		if got, err := b.Judge(t.Context(), expire.Entry{UID: "uid-tmp-1"}); err != nil || got.Verdict != want {
			t.Errorf("judgement %d: %+v, %v", i+1, got, err)
		}
	}
	if item := b.order[0]; item.Result != v1alpha1.ItemFailed || !strings.Contains(item.Message, "the budget is spent") {
		t.Errorf("the object is %s, %s", item.Result, item.Message)
	}
	b.busy = start // The account is not asked to read, either.
	if _, err := b.Judge(t.Context(), expire.Entry{UID: "uid-tmp-1"}); !errors.Is(err, expire.ErrNoSlot) {
		t.Errorf("while the account is to wait: %v", err)
	}
	if err := b.submit(t.Context(), b.order); err != nil || b.unconfirmed != nil || b.budget.Spent() {
		t.Errorf("the next attempt: %v, %v, and its budget is spent: %t", err, b.unconfirmed, b.budget.Spent())
	}
}

// A live judgement has no place while it reads, and waits for one before it evaluates. Where it
// gets none in time, nothing is wrong with its object, unless the reads took the time (S10).
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.liveBatch(process, "true").Judge(ctx, expire.Entry{UID: "uid-tmp-1"}); !errors.Is(err, expire.ErrNoSlot) {
			t.Errorf("without a place: %v", err)
		}
		late := func() error { <-ctx.Done(); return nil }
		if err := place.judging(ctx, late); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, expire.ErrNoSlot) {
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
	must(t, err)
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
