package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Queue holds names that wait for work, each at most once, in the order in which they were added.
// Unlike client-go's workqueue it needs no goroutine of its own and lets go of names again.
type Queue struct {
	mu    sync.Mutex
	names []string
	has   map[string]bool
	wake  Signal
}

// NewQueue makes an empty queue.
func NewQueue() *Queue { return &Queue{has: map[string]bool{}, wake: NewSignal()} }

// Add appends a name unless it waits already.
func (q *Queue) Add(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(name)
}

func (q *Queue) add(name string) {
	if q.has[name] {
		return
	}
	q.has[name] = true
	q.names = append(q.names, name)
	q.wake.Set()
}

// Remove drops a name that needs no work any more.
func (q *Queue) Remove(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.has[name] {
		delete(q.has, name)
		q.names = slices.DeleteFunc(q.names, func(other string) bool { return other == name })
	}
}

// Next waits for a name and removes it. It returns false once ctx is done.
func (q *Queue) Next(ctx context.Context) (string, bool) {
	for {
		if name, ok := q.Pop(); ok {
			return name, true
		}
		if !q.wake.Wait(ctx, nil, 0) {
			return "", false
		}
	}
}

// Wait returns once there may be a name, and after atMost unless that is 0. It returns false once
// ctx is done.
func (q *Queue) Wait(ctx context.Context, clock clock.Clock, atMost time.Duration) bool {
	return q.wake.Wait(ctx, clock, atMost)
}

// Pop removes the first name, if there is one.
func (q *Queue) Pop() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.names) == 0 {
		return "", false
	}
	name := q.names[0]
	q.names = q.names[1:]
	delete(q.has, name)
	return name, true
}
