package expire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// Work judges and deletes objects that need not be tracked, such as those that a cleanup run has
// chosen. Both methods act with the rights of its owner.
type Work interface {
	// Judge reads one object live and judges it, like the Judge of a kind.
	Judge(ctx context.Context, o Entry) (Judgement, error)
	deletion.Action
	// Order says which objects of one source go first: those with the lowest number.
	Order() int
}

// waiter is a call of Delete that waits until its object may be acted on, or is turned down.
type waiter struct {
	object Entry
	begun  chan struct{} // closed once job or out is set
	job    *job
	out    Outcome
}

// line holds the waiters of one Work. Sources take turns, so that a small run never waits for all of
// a large one.
type line struct {
	source  string
	work    Work
	waiters []*waiter
}

// Delete makes one attempt at an object, under the same preconditions, limits, rates and breakers
// as for tracked objects, but after all of those that are due. It waits for its turn, and returns
// the outcome. If it meets a conflict it judges the object and tries again at once. An object that
// is not due by its Expiry is Kept. Nothing is sent, and the object is Held, if a pause or a
// breaker holds it, or if ctx ends before its turn.
func (e *Engine) Delete(ctx context.Context, o Entry, work Work) Outcome {
	w := e.lineUp(o, work)
	select {
	case <-w.begun:
	case <-ctx.Done():
		e.withdraw(w, ctx.Err())
	}
	if w.job == nil {
		return w.out
	}
	return e.carryOut(ctx, w.job)
}

// carryOut makes the attempt at an object that is not tracked.
func (e *Engine) carryOut(ctx context.Context, j *job) Outcome {
	defer e.workers.Done()
	res := e.attempt(ctx, j)
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	e.wakeUp() // There is a slot.
	return e.finish(j, res, r, ctx.Err() != nil)
}

// lineUp has an object wait for its turn.
func (e *Engine) lineUp(o Entry, work Work) *waiter {
	w := &waiter{object: o, begun: make(chan struct{})}
	e.mu.Lock()
	defer e.unlock()
	switch {
	case !e.valid(&o):
		e.turnDown(w, Held, errIncomplete)
		return w
	case e.stopped:
		e.turnDown(w, Held, errStopped)
		return w
	}
	e.kinds[o.Kind].enqueued.Inc()
	i := slices.IndexFunc(e.lines, func(l *line) bool { return l.work == work })
	if i < 0 {
		i = slices.IndexFunc(e.lines, func(l *line) bool { return l.source == o.Source && l.work.Order() > work.Order() })
		if i < 0 {
			i = len(e.lines)
		}
		e.lines = slices.Insert(e.lines, i, &line{source: o.Source, work: work})
	}
	e.lines[i].waiters = append(e.lines[i].waiters, w)
	e.wakeUp()
	return w
}

var errStopped = errors.New("the engine has stopped")

// turnDown ends the wait of an object. Nothing was sent. The lock is held.
func (e *Engine) turnDown(w *waiter, result Ending, err error) {
	w.out = Outcome{Object: w.object, Result: result, At: e.read().at, Err: err}
	if k := w.object.Kind; int(k) < len(e.kinds) && k != 0 {
		w.out.Trigger = e.kinds[k].trigger.label(w.object.Phase)
	}
	close(w.begun)
}

// withdraw turns down a waiter that has not begun, or with nil all of them.
func (e *Engine) withdraw(w *waiter, why error) {
	e.mu.Lock()
	defer e.unlock()
	e.lines = slices.DeleteFunc(e.lines, func(l *line) bool {
		l.waiters = slices.DeleteFunc(l.waiters, func(other *waiter) bool {
			if w != nil && other != w {
				return false
			}
			e.turnDown(other, Held, why)
			return true
		})
		return len(l.waiters) == 0
	})
}

// grant begins the jobs of as many waiters as there is room for. The lock is held.
func (e *Engine) grant(now int64, r reading) {
	for i := 0; i < len(e.lines) && !e.full(); {
		l := e.lines[i]
		j, limited := e.grantOf(l, now, r)
		if limited {
			return
		}
		if j == nil && len(l.waiters) > 0 {
			i++
			continue
		}
		if len(l.waiters) == 0 {
			e.lines = slices.Delete(e.lines, i, i+1)
		}
		if j != nil {
			slices.SortStableFunc(e.lines, func(l, other *line) int { return cmp.Compare(turn(l, j), turn(other, j)) })
		}
		i = 0
	}
}

// turn sorts lines after a job of a source has begun: the source has its next turn after all others.
func turn(l *line, j *job) int {
	if l.source == j.object.Source {
		return 1
	}
	return 0
}

// grantOf begins the job of the first waiter of a line that may act now; nil if there is none.
// limited reports that a rate has no room. The lock is held.
func (e *Engine) grantOf(l *line, now int64, r reading) (_ *job, limited bool) {
	for i := 0; i < len(l.waiters); {
		w := l.waiters[i]
		o, kind := &w.object, e.kinds[w.object.Kind]
		switch {
		case index.Nanos(o.Expiry) > now: // S1
			l.waiters = slices.Delete(l.waiters, i, i+1)
			e.turnDown(w, Kept, fmt.Errorf("%s is not due before %s", nameOf(o), o.Expiry))
			continue
		case e.onHold(o):
			l.waiters = slices.Delete(l.waiters, i, i+1)
			e.turnDown(w, Held, ErrHeldByPause)
			continue
		case kind.held || e.room(e.index.Lookup(o.Kind, o.Namespace)) == index.None:
			i++
			continue
		}
		j := &job{object: *o, kind: kind.opts, trigger: kind.trigger, traffic: kind.traffic, work: l.work}
		admitted, _, free := e.admit(j, r)
		if !free {
			return nil, true
		}
		l.waiters = slices.Delete(l.waiters, i, i+1)
		if !admitted {
			e.turnDown(w, Held, ErrPaused)
			continue
		}
		e.begin(j)
		e.workers.Add(1)
		w.job = j
		close(w.begun)
		return j, false
	}
	return nil, false
}

// ErrNoSlot is the error of objects that are Held because too much else was under way. [Work]
// returns it, from Judge or with [deletion.Held].
var ErrNoSlot = errors.New("no slot became free in time")

// ErrPaused is the error of objects that are Held because a breaker is open.
var ErrPaused = errors.New("deletions of this kind or source are paused")

// ErrUnconfirmed is the error of objects that are Held because the rules were not
// confirmed in time.
var ErrUnconfirmed = fmt.Errorf("the rules could not be confirmed in time: %w", ErrPaused)

// finishUntracked completes the outcome of an object that is not tracked, and buries all entries of
// it if it is gone. The lock is held.
func (e *Engine) finishUntracked(j *job, res *attemptResult, out *Outcome, now int64) {
	switch {
	case res.held != nil:
		out.Result, out.Err = Held, res.held
	case res.postponed:
		out.Result = Kept
	}
	if out.Result == Deleted || out.Result == Unconfirmed || out.Result == AlreadyGone && res.deleting.IsZero() {
		for _, slot := range e.index.All(j.object.UID) {
			if e.index.At(slot).State != index.Tombstone {
				e.bury(slot, now)
			}
		}
	}
}
