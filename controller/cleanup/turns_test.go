package cleanup

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// work has a run work in steps of a second, and yield after each.
func (t *turns) work(ctx context.Context, namespace string, seconds int) (waited time.Duration) {
	began := time.Now()
	turn, err := t.take(ctx, namespace)
	waited = time.Since(began)
	defer turn.end()
	for i := 0; i < seconds && err == nil && ctx.Err() == nil; i++ {
		time.Sleep(time.Second)
		err = turn.yield(ctx)
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
		got := map[string]*int{}
		var all sync.WaitGroup
		for _, namespace := range []string{"crowd", "crowd", "crowd", "crowd", "crowd", "one"} {
			if got[namespace] == nil {
				got[namespace] = new(int)
			}
			all.Go(func() {
				turn, err := turns.take(ctx, namespace)
				for err == nil && ctx.Err() == nil {
					time.Sleep(time.Second)
					*got[namespace]++
					err = turn.yield(ctx)
				}
				turn.end()
			})
		}
		all.Wait()
		if crowd, one := *got["crowd"], *got["one"]; one < 580 || crowd < 580 {
			t.Errorf("five runs of a namespace got %d seconds, one of another %d: want the same", crowd, one)
		}
	})
}

// A namespace has at most its share even if nobody else wants a turn, and a run that waits for
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
