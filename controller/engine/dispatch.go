package engine

import (
	"context"
	"errors"
	"math"
	"time"
)

const (
	// lookAgain bounds how long the dispatcher sleeps: a timer runs on monotonic time, so it would
	// not notice that the clock was set forward.
	lookAgain = time.Second
	// retryLeast is the shortest wait before an overdue object is tried again: never 0 or negative.
	retryLeast = time.Second
)

// job is one object in the hands of a worker.
type job struct {
	object  Object
	kind    *KindOptions
	trigger *trigger
	queue   *queue
	batch   *batch // where it was submitted; nil for an entry of the index
	dry     bool
	attempt int
	// unanswered: an earlier DELETE got no answer.
	unanswered bool
	started    time.Duration // monotonic: when it entered its current room
	stay       *stay         // in its current room
}

// Run acts on due objects until ctx ends, then waits for the requests under way. It runs once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.running || e.stopped {
		e.unlock()
		return errors.New("engine: Run was called twice: make a new Engine")
	}
	e.running = true
	// The process before this one may have used up the budget, and a crash loop would delete
	// without bound.
	e.all.Exhaust(e.read().mono)
	e.guard.held = "" // Publish a hold that began before Run.
	e.unlock()
	timer := e.opts.Clock.NewTimer(lookAgain)
	defer timer.Stop()
	for {
		timer.Reset(e.dispatch(ctx))
		select {
		case <-ctx.Done():
			e.stop()
			return nil
		case <-e.kick:
		case <-timer.C():
		}
	}
}

// stop begins no new attempts, reports outcomes to the runs, waits for the workers and writes the
// last summary.
func (e *Engine) stop() {
	e.mu.Lock()
	e.running, e.stopped = false, true
	e.unlock()
	e.withdraw(nil, errStopped)
	e.workers.Wait()
	e.mu.Lock()
	e.summarize(e.read())
	e.unlock()
}

// dispatch starts workers for due objects, and returns how long to sleep.
func (e *Engine) dispatch(ctx context.Context) time.Duration {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	e.sleeping = math.MinInt64 // awake: no kick is needed
	now, ok := e.checkClock(r)
	e.setApart(r)
	e.pingIfNeeded(ctx, r)
	if e.summary.due(r.mono, e.opts.SummaryEvery) {
		e.summarize(r)
		e.closeIdle(r)
		e.forgiveIdle(r)
	}
	if ok {
		for {
			j := e.next(now, r)
			if j == nil {
				break
			}
			e.workers.Add(1)
			go e.work(ctx, j)
		}
	}
	wait := e.sleepFor(now, r, ok)
	e.sleeping = now + int64(wait)
	return wait
}

// work carries out a job, and then other jobs while any is due.
func (e *Engine) work(ctx context.Context, j *job) {
	defer e.workers.Done()
	for j != nil {
		res := e.attempt(ctx, j)
		r := e.read()
		e.mu.Lock()
		e.finish(j, res, r, ctx.Err() != nil)
		j = nil
		if ctx.Err() == nil {
			if now, ok := e.checkClock(r); ok {
				j = e.next(now, r)
				switch {
				case j != nil && e.requests.inFlight < e.conc.Limit():
					e.wakeUp() // the limit grew: there is room for one more worker
				case j == nil && now+int64(e.sleepFor(now, r, true)) < e.sleeping:
					// The dispatcher went to sleep while all slots were taken, so it has not seen
					// the entries that come next.
					e.wakeUp()
				}
			}
		}
		e.unlock()
	}
}
