package survey

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/cleanup"
)

// liveFor is how old an answer to a lookup may be when a live judgement asks for it: many of them
// share one. docs/safety.md promises it.
const liveFor = time.Second

// servedFor is how old discovery may be when a run begins, and when a live judgement asks what
// mounts a volume.
const servedFor = 5 * time.Second

// maxLive is of how many namespaces live answers are kept.
const maxLive = 100

// memory remembers reads of namespaces. It reads each namespace once, for any number of callers.
type memory[T any] struct {
	// clock makes answers end after a while; nil keeps them.
	clock clock.PassiveClock
	while time.Duration

	mu    sync.Mutex
	known map[string]*found[T]
}

// found is the result of reading a namespace, or the error.
type found[T any] struct {
	turn chan struct{} // held while it is read or used
	ok   bool
	sent time.Time // when reading began
	all  T
	err  error
}

func newMemory[T any](clock clock.PassiveClock) *memory[T] {
	return &memory[T]{clock: clock, while: liveFor, known: map[string]*found[T]{}}
}

// Share lets many surveys have one answer of discovery, for servedFor. A policy that waits for a
// permission asks twice a minute.
func Share(clock clock.PassiveClock, served func(context.Context) ([]cleanup.Resource, error)) func(context.Context) ([]cleanup.Resource, error) {
	m := newMemory[[]cleanup.Resource](clock)
	m.while = servedFor
	return func(ctx context.Context) ([]cleanup.Resource, error) {
		return m.get(ctx, "", func(ctx context.Context, _ string) ([]cleanup.Resource, error) { return served(ctx) })
	}
}

// get answers with what read returns, or has returned. Who waits while others read has an answer
// that is no older than one of its own.
func (m *memory[T]) get(ctx context.Context, namespace string, read func(context.Context, string) (T, error)) (none T, err error) {
	asked := m.now()
	of := m.of(namespace)
	select {
	case of.turn <- struct{}{}:
		defer func() { <-of.turn }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if !of.ok || m.clock != nil && asked.Sub(of.sent) >= m.while {
		of.sent = m.now()
		of.all, of.err = read(ctx, namespace)
		of.ok = ctx.Err() == nil // Its end is no answer for others.
	}
	return of.all, of.err
}

func (m *memory[T]) now() time.Time {
	if m.clock == nil {
		return time.Time{}
	}
	return m.clock.Now()
}

func (m *memory[T]) of(namespace string) *found[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.known[namespace]
	if of == nil {
		if m.clock != nil && len(m.known) >= maxLive {
			clear(m.known)
		}
		of = &found[T]{turn: make(chan struct{}, 1)}
		m.known[namespace] = of
	}
	return of
}
