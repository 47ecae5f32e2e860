package cleanup

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// runsAtOnce is how many runs list and judge at the same time.
	runsAtOnce = 4
	// runsShare is how many of them are of one namespace, so that the first run of another need not
	// wait.
	runsShare = 3
	// judgingAtOnce is how many objects all runs judge live at the same time, and judgingShare how
	// many of them are of one namespace. Their expressions take CPU time that others need; what they
	// read does not count.
	judgingAtOnce, judgingShare = 4, 3
	// slice is how long a run does so before others get a turn.
	slice = 2 * time.Second
	// pagesHeld is how many runs may wait for their next turn in the middle of a page, which they keep
	// in memory. Others finish their page first.
	pagesHeld = 8
	// rememberingAtOnce is how many runs with keepNewest or consecutiveRuns are under way, and
	// rememberingShare how many of one namespace: they keep up to 100,000 UIDs until they end.
	rememberingAtOnce, rememberingShare = 8, 2
)

// turns let a few runs work at a time, and others in their place after a while. The next turn goes
// to the namespace that has the fewest, and among several to the one whose last turn was longest
// ago.
type turns struct {
	clock clock.PassiveClock
	// share is how many turns a namespace may have at once.
	share int

	mu      sync.Mutex
	free    int
	held    map[string]int
	last    map[string]uint64 // when a namespace got its last turn, in turns of all
	count   uint64
	waiting map[string][]*turn // by namespace, who came first first: one may have thousands
	came    uint64             // how many have waited so far
	inPage  int                // turns that wait in the middle of a page
}

func newTurns(clock clock.PassiveClock, most, share int) *turns {
	return &turns{clock: clock, share: share, free: most, held: map[string]int{}, last: map[string]uint64{}, waiting: map[string][]*turn{}}
}

// turn is what one run has, or waits for. A nil turn never waits.
type turn struct {
	of        *turns
	namespace string
	granted   chan struct{}
	came      uint64
	held      bool
	since     time.Time
	worked    time.Duration // before since
}

// take waits for a turn.
func (t *turns) take(ctx context.Context, namespace string) (*turn, error) {
	out := &turn{of: t, namespace: namespace}
	return out, out.take(ctx)
}

func (u *turn) take(ctx context.Context) error {
	u.of.mu.Lock()
	u.queue()
	u.of.grant()
	u.of.mu.Unlock()
	return u.wait(ctx)
}

// queue has a turn wait. The lock is held.
func (u *turn) queue() {
	u.granted = make(chan struct{})
	u.of.came++
	u.came = u.of.came
	u.of.waiting[u.namespace] = append(u.of.waiting[u.namespace], u)
}

func (u *turn) wait(ctx context.Context) error {
	select {
	case <-u.granted:
		return nil
	case <-ctx.Done():
	}
	t := u.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leave(u) {
		return nil // It was granted at the last moment.
	}
	return context.Cause(ctx)
}

// leave has a turn wait no more, and reports whether it did. The lock is held.
func (t *turns) leave(u *turn) bool {
	line := t.waiting[u.namespace]
	i := slices.Index(line, u)
	if i < 0 {
		return false
	}
	if t.waiting[u.namespace] = slices.Delete(line, i, i+1); len(line) == 1 {
		delete(t.waiting, u.namespace)
	}
	return true
}

// grant gives out the free turns. The lock is held.
func (t *turns) grant() {
	for t.free > 0 {
		var u *turn
		for namespace, line := range t.waiting {
			if t.held[namespace] < t.share && (u == nil || t.before(line[0], u)) {
				u = line[0]
			}
		}
		if u == nil {
			return
		}
		t.leave(u)
		t.free--
		t.count++
		t.held[u.namespace]++
		t.last[u.namespace] = t.count
		u.held, u.since = true, t.clock.Now()
		close(u.granted)
	}
}

// before reports whether a turn is given out before another one.
func (t *turns) before(u, other *turn) bool {
	return cmp.Or(
		cmp.Compare(t.held[u.namespace], t.held[other.namespace]),
		cmp.Compare(t.last[u.namespace], t.last[other.namespace]),
		cmp.Compare(u.came, other.came),
	) < 0
}

// end gives a turn back, if it is not over already.
func (u *turn) end() {
	if u == nil {
		return
	}
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	u.give()
	u.of.grant()
}

// give ends a turn. The lock is held.
func (u *turn) give() {
	if !u.held {
		return
	}
	t := u.of
	u.held = false
	u.worked += t.clock.Since(u.since)
	t.free++
	if t.held[u.namespace]--; t.held[u.namespace] == 0 {
		delete(t.held, u.namespace)
	}
}

// yield lets others have their turn if it is their time, between two pages or within one. With an
// error the turn is over.
func (u *turn) yield(ctx context.Context, inPage bool) error {
	if u == nil {
		return nil
	}
	t, pages := u.of, 0
	if inPage {
		pages = 1
	}
	t.mu.Lock()
	if t.inPage+pages > pagesHeld || !u.over() {
		t.mu.Unlock()
		return nil
	}
	t.inPage += pages
	u.queue() // It may be the next: of a namespace without another turn.
	u.give()
	t.grant()
	t.mu.Unlock()
	err := u.wait(ctx)
	t.mu.Lock()
	t.inPage -= pages
	t.mu.Unlock()
	return err
}

// over reports whether a turn has lasted long enough, or its namespace has several while another
// one waits without any. The lock is held.
func (u *turn) over() bool {
	t := u.of
	if !u.held || t.clock.Since(u.since) >= slice {
		return u.held
	}
	if t.held[u.namespace] > 1 {
		for namespace := range t.waiting {
			if t.held[namespace] == 0 {
				return true
			}
		}
	}
	return false
}

// total is how long all turns of a run lasted so far.
func (u *turn) total() time.Duration {
	if u == nil {
		return 0
	}
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if !u.held {
		return u.worked
	}
	return u.worked + u.of.clock.Since(u.since)
}

// away gives the turn to others while f waits for something else. With an error the turn is over.
func (u *turn) away(ctx context.Context, f func() error) error {
	if u == nil {
		return f()
	}
	u.end()
	if err := f(); err != nil {
		return err
	}
	return u.take(ctx)
}
