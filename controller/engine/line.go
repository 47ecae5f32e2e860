package engine

import (
	"context"
	"errors"
	"slices"
	"time"
)

// lineMost is how long a job waits for a slot. Its judgement grows old meanwhile.
const lineMost = 2 * time.Second

// ErrNoSlot is the error of submitted objects that are Held because too much else was under way.
// [Run.Judge] may return it, too.
var ErrNoSlot = errors.New("no slot became free in time")

// waiter is a job between two rooms. It takes a slot of neither.
type waiter struct {
	job *job
	to  *room
	in  chan struct{} // closed once the job is there
}

// moveTo moves a job to another room as soon as that has a slot. It returns false if no slot
// becomes free in time. Only the job's own worker calls it.
func (e *Engine) moveTo(ctx context.Context, j *job, to *room) bool {
	if j.stay.room == to {
		return true
	}
	w := e.lineUp(j, to)
	select {
	case <-w.in:
		return true // The common case takes no timer.
	default:
	}
	over := e.opts.Clock.NewTimer(lineMost)
	defer over.Stop()
	select {
	case <-w.in:
		return true
	case <-over.C():
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.unlock()
	i := slices.Index(e.waiting, w)
	if i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	return i < 0 // It may have come in at the last moment.
}

// lineUp moves a job out of its room and into the line for another one.
func (e *Engine) lineUp(j *job, to *room) *waiter {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	was := j.stay
	e.leave(j)
	if was.room == &e.judgements {
		e.took(was, r)
	}
	w := &waiter{job: j, to: to, in: make(chan struct{})}
	e.waiting = append(e.waiting, w)
	e.letIn(r)
	e.wakeUp() // There is a slot where it was.
	return w
}

// letIn gives free slots to the jobs in line, before any new job begins. After a 429 of the API
// server it lets in no request. It does not ask the breakers, which have admitted these jobs
// already: a probe that finds out whether an outage is over must not wait for the end of the
// outage. The lock is held.
func (e *Engine) letIn(r reading) {
	if len(e.waiting) == 0 {
		return
	}
	e.waiting = slices.DeleteFunc(e.waiting, func(w *waiter) bool {
		s := e.shareOf(w.job, w.to)
		if !e.roomFor(w.to, s) || w.to == &e.requests && r.mono < e.pausedTo {
			return false
		}
		e.begin(w.job, w.to, s, r.mono)
		close(w.in)
		return true
	})
}

// halted reports whether no request at all may be sent for now. The lock is held.
func (e *Engine) halted(r reading) bool {
	return r.mono < e.pausedTo || e.breakers.blocked(r.mono) > 0
}

// inLine is how many jobs of a partition wait for a slot.
func (e *Engine) inLine(q *queue, p *partition) (n int) {
	for _, w := range e.waiting {
		if w.job.queue == q && q.partition(w.job.object.Namespace) == p {
			n++
		}
	}
	return n
}
