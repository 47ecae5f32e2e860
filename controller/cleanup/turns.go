package cleanup

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// runsAtOnce is how many runs list and judge at the same time.
	runsAtOnce = 4
	// slice is how long a run does so before others get a turn.
	slice = 2 * time.Second
	// rememberingAtOnce is how many runs with keepNewest or consecutiveRuns are under way, and
	// rememberingShare how many of one namespace: they keep up to 100,000 UIDs until they end.
	rememberingAtOnce, rememberingShare = 8, 2
)

// turns let a few runs work at a time, and others in their place after a while. The next turn goes
// to the namespace that has the fewest, and among several to the one whose last turn was longest
// ago. ClusterCleanupPolicies count as one namespace.
type turns struct {
	clock clock.PassiveClock
	// share is how many turns a namespace may have at once.
	share int

	mu      sync.Mutex
	free    int
	held    map[string]int
	last    map[string]uint64 // when a namespace got its last turn, in turns of all
	count   uint64
	waiting []*turn
}

func newTurns(clock clock.PassiveClock, most, share int) *turns {
	return &turns{clock: clock, share: share, free: most, held: map[string]int{}, last: map[string]uint64{}}
}

// turn is what one run has, or waits for. A nil turn never waits.
type turn struct {
	of        *turns
	namespace string
	granted   chan struct{}
	held      bool
	since     time.Time
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
	u.of.waiting = append(u.of.waiting, u)
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
	i := slices.Index(t.waiting, u)
	if i < 0 {
		return nil // It was granted at the last moment.
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return context.Cause(ctx)
}

// grant gives out the free turns. The lock is held.
func (t *turns) grant() {
	for t.free > 0 {
		next := -1
		for i, u := range t.waiting {
			if t.held[u.namespace] < t.share && (next < 0 || t.before(u, t.waiting[next])) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		u := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.free--
		t.count++
		t.held[u.namespace]++
		t.last[u.namespace] = t.count
		u.held, u.since = true, t.clock.Now()
		close(u.granted)
	}
}

// before reports whether a turn is given out before another one that has waited for longer.
func (t *turns) before(u, older *turn) bool {
	if mine, other := t.held[u.namespace], t.held[older.namespace]; mine != other {
		return mine < other
	}
	return t.last[u.namespace] < t.last[older.namespace]
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
	t.free++
	if t.held[u.namespace]--; t.held[u.namespace] == 0 {
		delete(t.held, u.namespace)
	}
}

// yield lets others have their turn if this one has lasted long enough. With an error the turn is
// over.
func (u *turn) yield(ctx context.Context) error {
	if u == nil || u.of.clock.Since(u.since) < slice {
		return nil
	}
	u.of.mu.Lock()
	u.queue() // It may be the next: of a namespace without another turn.
	u.give()
	u.of.grant()
	u.of.mu.Unlock()
	return u.wait(ctx)
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

// namespaceOf is the namespace in the key of a policy; empty for a ClusterCleanupPolicy.
func namespaceOf(key string) string {
	_, name, _ := strings.Cut(key, "/")
	namespace, _, namespaced := strings.Cut(name, "/")
	if !namespaced {
		return ""
	}
	return namespace
}
