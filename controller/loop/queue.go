package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// RetryQueue holds names that wait for work, each at most once. Groups of names take turns, so that
// one with many names delays no other; within a group they come in the order in which they were
// added. A name can wait by itself for a while and delays no other. Unlike client-go's workqueue it
// needs no goroutine of its own and lets go of names again.
type RetryQueue struct {
	group func(name string) string
	clock clock.Clock
	most  time.Duration
	wake  Signal

	mu    sync.Mutex
	names map[string][]string // by group
	turns []string            // the groups that have names
	has   map[string]bool
	// later are the names that wait, and next is the earliest of their times; zero if none waits.
	// failures counts the failures of a name in a row.
	later    map[string]time.Time
	next     time.Time
	failures map[string]int
	// working has the names under work, and whether another worker has asked for one meanwhile.
	working map[string]bool
}

// NewRetryQueue makes an empty queue with one group, in which no name waits for longer than most.
func NewRetryQueue(clock clock.Clock, most time.Duration) *RetryQueue {
	return NewFairQueue(clock, most, func(string) string { return "" })
}

// NewFairQueue makes one in which groups of names take turns.
func NewFairQueue(clock clock.Clock, most time.Duration, group func(name string) string) *RetryQueue {
	return &RetryQueue{
		group: group, clock: clock, most: most, wake: NewSignal(), names: map[string][]string{}, has: map[string]bool{},
		later: map[string]time.Time{}, failures: map[string]int{}, working: map[string]bool{},
	}
}

// Add appends a name unless it waits already.
func (q *RetryQueue) Add(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(name)
}

func (q *RetryQueue) add(name string) {
	if q.has[name] {
		return
	}
	q.has[name] = true
	group := q.group(name)
	if len(q.names[group]) == 0 {
		q.turns = append(q.turns, group)
	}
	q.names[group] = append(q.names[group], name)
	q.wake.Set()
}

// Remove drops a name that needs no more work, with its failures.
func (q *RetryQueue) Remove(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.later, name)
	delete(q.failures, name)
	if !q.has[name] {
		return
	}
	delete(q.has, name)
	group := q.group(name)
	if q.names[group] = slices.DeleteFunc(q.names[group], func(other string) bool { return other == name }); len(q.names[group]) == 0 {
		delete(q.names, group)
		q.turns = slices.DeleteFunc(q.turns, func(other string) bool { return other == group })
	}
}

// Pop removes the first name of the group whose turn it is, if there is one.
func (q *RetryQueue) Pop() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return "", false
	}
	group := q.turns[0]
	name := q.names[group][0]
	q.turns, q.names[group] = q.turns[1:], q.names[group][1:]
	if len(q.names[group]) > 0 {
		q.turns = append(q.turns, group)
	} else {
		delete(q.names, group)
	}
	delete(q.has, name)
	if len(q.turns) > 0 || len(q.later) > 0 {
		q.wake.Set() // The signal that woke this worker may have been for another one, too.
	}
	return name, true
}

// AddAfter appends a name after a while.
func (q *RetryQueue) AddAfter(name string, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addAfter(name, d)
}

// Retry appends a name whose work failed: after first, and after twice as long each time that it
// fails again.
func (q *RetryQueue) Retry(name string, first time.Duration) { q.RetryWithin(name, first, q.most) }

// RetryWithin is Retry with a maximum of its own.
func (q *RetryQueue) RetryWithin(name string, first, most time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	most = min(most, q.most)
	d := min(first, most)
	for range q.failures[name] {
		if d = min(2*d, most); d == most {
			break
		}
	}
	q.failures[name]++
	q.addAfter(name, d)
}

// Begin reserves a name for a worker, which calls End after its work. If another worker has the
// name, Begin returns false, and the name is appended again when that worker calls End.
func (q *RetryQueue) Begin(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, taken := q.working[name]
	q.working[name] = taken
	return !taken
}

// End releases a name that Begin has reserved.
func (q *RetryQueue) End(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working[name] {
		q.add(name)
	}
	delete(q.working, name)
}

// Done ends the failures of a name: the next one waits for as long as the first.
func (q *RetryQueue) Done(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, name)
}

func (q *RetryQueue) addAfter(name string, d time.Duration) {
	due := q.clock.Now().Add(min(d, q.most))
	q.later[name] = due
	if q.next.IsZero() || due.Before(q.next) {
		q.next = due
	}
	q.wake.Set()
}

// Delayed reports whether a name waits for its time.
func (q *RetryQueue) Delayed(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.later[name]
	return ok
}

// Next waits for a name and removes it. It returns false once ctx is done, although names may wait:
// work that fails because of that adds its name again.
func (q *RetryQueue) Next(ctx context.Context) (string, bool) {
	for {
		if ctx.Err() != nil {
			return "", false
		}
		wait := q.due()
		if name, ok := q.Pop(); ok {
			return name, true
		}
		if !q.wake.Wait(ctx, q.clock, wait) {
			return "", false
		}
	}
}

// Work does the work for each name until ctx is done. If do returns a wait, the work failed, which
// do reports itself: the name waits as by [RetryQueue.Retry].
func (q *RetryQueue) Work(ctx context.Context, do func(ctx context.Context, name string) (again time.Duration)) {
	for name, ok := q.Next(ctx); ok; name, ok = q.Next(ctx) {
		switch again := do(ctx, name); {
		case ctx.Err() != nil:
			return
		case again == 0:
			q.Done(name)
		default:
			q.Retry(name, again)
		}
	}
}

// due appends the names whose time has come, and returns how long the next one waits; 0 if none
// does. A name that seems to wait for longer than the maximum is due: the clock was set back.
func (q *RetryQueue) due() time.Duration {
	now := q.clock.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next.IsZero() {
		return 0
	}
	if wait := q.next.Sub(now); wait > 0 && wait <= q.most {
		return wait
	}
	q.next = time.Time{}
	for name, due := range q.later {
		switch wait := due.Sub(now); {
		case wait <= 0 || wait > q.most:
			delete(q.later, name)
			q.add(name)
		case q.next.IsZero() || due.Before(q.next):
			q.next = due
		}
	}
	if q.next.IsZero() {
		return 0
	}
	return q.next.Sub(now)
}
