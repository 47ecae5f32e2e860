package survey

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/cleanup"
)

// maxLive is of how many namespaces live answers are kept.
const maxLive = 100

// memory remembers reads of namespaces. It reads each namespace once, for any number of callers.
type memory[T any] struct {
	// clock makes answers end after a while; nil keeps them.
	clock clock.PassiveClock
	while time.Duration
	// most is how long reading may go on for others after its caller has given up; 0 ends both. The
	// while begins when such reading has ended.
	most time.Duration

	mu    sync.Mutex
	known map[string]*found[T]
}

// found is the result of reading a namespace, or the error.
type found[T any] struct {
	turn  chan struct{} // held while it is read or used
	ok    bool
	since time.Time // when the while began
	answer[T]
}

type answer[T any] struct {
	all T
	err error
}

func newMemory[T any](clock clock.PassiveClock) *memory[T] {
	return &memory[T]{clock: clock, while: liveFor, known: map[string]*found[T]{}}
}

// Served answers with the resources that can be listed and deleted.
type Served = func(context.Context) ([]cleanup.Resource, error)

// Share lets many surveys have one answer of discovery, for servedFor. A policy that waits for a
// permission asks twice a minute.
func Share(clock clock.PassiveClock, served Served) Served {
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
	found := m.of(namespace)
	select {
	case found.turn <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if found.ok && (m.clock == nil || asked.Sub(found.since) < m.while) {
		defer func() { <-found.turn }()
		return found.all, found.err
	}
	if m.most == 0 {
		defer func() { <-found.turn }()
		m.read(ctx, found, namespace, read)
		return found.all, found.err
	}
	done := make(chan answer[T], 1)
	go func() {
		defer func() { <-found.turn }()
		limited, end := context.WithTimeout(context.WithoutCancel(ctx), m.most)
		defer end()
		m.read(limited, found, namespace, read)
		found.since = m.now()
		done <- found.answer
	}()
	select {
	case got := <-done:
		return got.all, got.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (m *memory[T]) read(ctx context.Context, known *found[T], namespace string, read func(context.Context, string) (T, error)) {
	known.since, known.answer = m.now(), answer[T]{} // The old answer takes no memory meanwhile.
	known.all, known.err = read(ctx, namespace)
	known.ok = ctx.Err() == nil // Its end is no answer for others.
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
	known := m.known[namespace]
	if known == nil {
		if m.clock != nil && len(m.known) >= maxLive {
			clear(m.known)
		}
		known = &found[T]{turn: make(chan struct{}, 1)}
		m.known[namespace] = known
	}
	return known
}
