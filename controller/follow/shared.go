package follow

import (
	"context"
	"sync"
	"time"
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

// call is what is being read, and what is to be read next for those who came too late for it.
type call[V any] struct{ now, next *answer[V] }

type answer[V any] struct {
	read  func(context.Context) (V, error)
	done  chan struct{}
	value V
	err   error
}

func newShared[V any]() *shared[V] { return &shared[V]{calls: map[string]*call[V]{}} }

// get answers with a read of the key that began after get was called.
func (s *shared[V]) get(ctx context.Context, key string, read func(context.Context) (V, error)) (V, error) {
	s.mu.Lock()
	c := s.calls[key]
	if c == nil {
		c = &call[V]{now: &answer[V]{read: read, done: make(chan struct{})}}
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

// run reads for as long as somebody waits.
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
