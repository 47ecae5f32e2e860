package follow

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
)

// sharedTimeout bounds one shared read. Who waits for it has a bound of his own.
const sharedTimeout = 30 * time.Second

// shared lets many ask for the same thing at once and reads it once, without making anyone's answer
// older: an answer is shared only among those who asked before its read began. So each is as fresh
// as one that the asker had read for himself (S1, S6), and a thousand deletions that hang on one
// namespace read it a few times a round trip, and not a thousand times.
type shared[V any] struct {
	mu    sync.Mutex
	calls map[string]*call[V]
}

// call is the read under way, and the next one for callers that came too late for it.
type call[V any] struct{ now, next *answer[V] }

type answer[V any] struct {
	read  func(context.Context) (V, error)
	done  chan struct{}
	value V
	err   error
}

func newShared[V any]() *shared[V] { return &shared[V]{} }

// get answers with a read of the key that began after get was called.
func (s *shared[V]) get(ctx context.Context, key string, read func(context.Context) (V, error)) (V, error) {
	s.mu.Lock()
	c := s.calls[key]
	if c == nil {
		c = &call[V]{now: &answer[V]{read: read, done: make(chan struct{})}}
		if s.calls == nil {
			s.calls = map[string]*call[V]{}
		}
		s.calls[key] = c
		// It serves others too, so that it does not end with the one who happened to come first.
		go s.run(context.WithoutCancel(ctx), key, c)
		a := c.now
		s.mu.Unlock()
		return a.wait(ctx)
	}
	if c.next == nil {
		c.next = &answer[V]{read: read, done: make(chan struct{})}
	}
	a := c.next
	s.mu.Unlock()
	return a.wait(ctx)
}

func (a *answer[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// run reads for as long as a caller waits.
func (s *shared[V]) run(ctx context.Context, key string, c *call[V]) {
	for {
		s.mu.Lock()
		a := c.now
		s.mu.Unlock()
		once, cancel := context.WithTimeout(ctx, sharedTimeout)
		a.value, a.err = a.read(once)
		cancel()
		close(a.done)
		s.mu.Lock()
		c.now, c.next = c.next, nil
		if c.now == nil {
			delete(s.calls, key)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// recent shares each answer for a while, too: with all who ask less than recentFor after its read
// was sent, as long as nothing is known to have changed since before that. No two reads are sent
// closer together.
type recent[V any] struct {
	shared *shared[V]
	clock  clock.Clock
	// read reads, and known is what has been heard of changes so far.
	read  func(context.Context) (V, error)
	known func() any

	mu   sync.Mutex
	last V
	ok   bool
	as   any // what was known before the last read was sent
	sent time.Time
}

// recentFor is how old rules may be that permit a DELETE, if no change of them is known.
const recentFor = time.Second

func newRecent[V any](clock clock.Clock, read func(context.Context) (V, error), known func() any) *recent[V] {
	return &recent[V]{shared: newShared[V](), clock: clock, read: read, known: known}
}

func (r *recent[V]) get(ctx context.Context) (V, error) {
	if value, _, ok := r.answer(); ok {
		return value, nil
	}
	return r.shared.get(ctx, "", r.next)
}

// answer is the last answer, if it is good for a question of now. Otherwise wait is how long no
// read may be sent.
func (r *recent[V]) answer() (value V, wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.clock.Since(r.sent)
	if r.sent.IsZero() || age < 0 || age >= recentFor {
		return value, 0, false
	}
	return r.last, recentFor - age, r.ok && r.as == r.known()
}

// next sends a read, unless another one answers by now.
func (r *recent[V]) next(ctx context.Context) (V, error) {
	value, wait, ok := r.answer()
	if ok {
		return value, nil
	}
	if wait > 0 && !loop.Pause(ctx, r.clock, wait) {
		return value, ctx.Err()
	}
	r.mu.Lock()
	r.ok, r.as, r.sent = false, r.known(), r.clock.Now()
	r.mu.Unlock()
	value, err := r.read(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.ok = value, err == nil
	return value, err
}
