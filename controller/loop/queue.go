package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Queue holds names that wait for work, each at most once. Groups of names take turns, so that one
// with many names delays no other; within a group they come in the order in which they were added.
// Unlike client-go's workqueue it needs no goroutine of its own and lets go of names again.
type Queue struct {
	group func(name string) string

	mu    sync.Mutex
	names map[string][]string // by group
	turns []string            // the groups that have names
	has   map[string]bool
	wake  Signal
}

// NewQueue makes an empty queue with one group for all names.
func NewQueue() *Queue { return newQueue(func(string) string { return "" }) }

func newQueue(group func(name string) string) *Queue {
	return &Queue{group: group, names: map[string][]string{}, has: map[string]bool{}, wake: NewSignal()}
}

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
	of := q.group(name)
	if len(q.names[of]) == 0 {
		q.turns = append(q.turns, of)
	}
	q.names[of] = append(q.names[of], name)
	q.wake.Set()
}

// Remove drops a name that needs no work any more.
func (q *Queue) Remove(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.has[name] {
		return
	}
	delete(q.has, name)
	of := q.group(name)
	if q.names[of] = slices.DeleteFunc(q.names[of], func(other string) bool { return other == name }); len(q.names[of]) == 0 {
		delete(q.names, of)
		q.turns = slices.DeleteFunc(q.turns, func(other string) bool { return other == of })
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

// Pop removes the first name of the group whose turn it is, if there is one.
func (q *Queue) Pop() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return "", false
	}
	of := q.turns[0]
	name := q.names[of][0]
	q.turns, q.names[of] = q.turns[1:], q.names[of][1:]
	if len(q.names[of]) > 0 {
		q.turns = append(q.turns, of)
	} else {
		delete(q.names, of)
	}
	delete(q.has, name)
	return name, true
}
