package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// lookAgain is how long the dispatcher sleeps at most: a timer runs on monotonic time, and a clock that is set
	// forward must not make an hour's wait of it.
	lookAgain = time.Second
	// retryLeast is how soon something that is past due may be tried again: never 0, never negative.
	retryLeast = time.Second
)

// job is one entry in the hands of a worker.
type job struct {
	object  Object
	kind    *KindOptions
	queue   *queue
	dry     bool
	attempt int
	// unanswered: an earlier DELETE got no answer.
	unanswered bool
	started    time.Duration // monotonic
	direct     *direct
	apart      bool // takes up no room: see queue
	arrived    bool
}

// direct is a deletion that somebody waits for.
type direct struct {
	object Object
	judge  Judge
	done   chan Outcome // holds one
}

// Run deletes what is due until ctx ends, then waits for the DELETEs under way. It runs once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.running || e.stopped {
		e.unlock()
		return errors.New("expiry: Run was called twice: make a new Engine")
	}
	e.running = true
	// The process before this one may have used the budget up, and a crash loop would delete without bound.
	e.all.exhaust(e.read().mono)
	e.guard.held = "" // What holds now is said now.
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

// stop ends all: nothing is taken up any more, who waits gets an answer, and what was deleted is told.
func (e *Engine) stop() {
	e.mu.Lock()
	e.running, e.stopped = false, true
	for _, d := range e.direct {
		d.done <- Outcome{Object: d.object, Result: Held, Err: errors.New("the engine has stopped")}
	}
	e.direct = nil
	e.unlock()
	e.workers.Wait()
	e.mu.Lock()
	e.summarize(e.read())
	e.unlock()
}

// dispatch gives what is due to new workers, and tells how long to sleep.
func (e *Engine) dispatch(ctx context.Context) time.Duration {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	e.sleeping = math.MinInt64 // awake: nobody need kick
	now, ok := e.checkClock(r)
	e.setApart(r)
	e.pingIfNeeded(ctx, r)
	if e.summary.due(r.mono, e.opts.SummaryEvery) {
		e.summarize(r)
		e.closeIdle(r)
	}
	if ok {
		for {
			j := e.take(now, r)
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

// work carries a job out, and then whatever else is due.
func (e *Engine) work(ctx context.Context, j *job) {
	defer e.workers.Done()
	for j != nil {
		res := e.attempt(ctx, j)
		r := e.read()
		e.mu.Lock()
		e.settle(j, res, r, ctx.Err() != nil)
		j = nil
		if ctx.Err() == nil {
			if now, ok := e.checkClock(r); ok {
				j = e.take(now, r)
				switch {
				case j != nil && e.inFlight < e.conc.Limit():
					e.wakeUp() // the limit grew: there is room for one more worker
				case j == nil && now+int64(e.sleepFor(now, r, true)) < e.sleeping:
					// The dispatcher went to sleep while more was due than might be under way, so that it did not see what comes
					// after that.
					e.wakeUp()
				}
			}
		}
		e.unlock()
	}
}

// checkClock gives the instant to decide by and tells whether deletions may go on. An engine that does not run, as that of a standby whose
// metrics are scraped, has nobody to tell. The lock is held.
func (e *Engine) checkClock(r reading) (now int64, ok bool) {
	held, jumps := e.guard.held, e.guard.jumps
	now, ok = e.guard.now(r)
	if !e.running {
		return now, ok
	}
	if e.guard.jumps != jumps {
		// What waits for another attempt or as a tombstone counted from a clock that was wrong. Bound its wait anew.
		e.rewake(now+int64(backoffMost), func(en *entry) bool {
			return en.state == stateArmed && en.wake > en.expiry || en.state == stateTombstone
		})
	}
	if e.guard.held != held {
		e.clockEvent(held, r)
	}
	return now, ok
}

func (e *Engine) clockEvent(before string, r reading) {
	ev := BreakerEvent{Class: classClock, Scope: classClock, Open: e.guard.held != "", Reason: e.guard.held, Message: e.guard.message, At: r.at}
	if !ev.Open {
		ev.Reason, ev.Message = before, "deletions go on: the clock agrees with the API server's"
	}
	if ev.Reason == ReasonNoServerTime {
		return // every start begins so
	}
	e.tell(ev)
}

// tell leaves an event to be told. The lock is held.
func (e *Engine) tell(ev BreakerEvent) {
	e.untold = append(e.untold, ev)
	e.note(e.tellAll)
}

// tellAll tells of pauses one by one, in the order in which they began and ended: a pause whose end is told before its beginning would last for
// ever with whoever listens. What comes up while somebody tells is left to them.
func (e *Engine) tellAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.telling {
		return
	}
	e.telling = true
	for len(e.untold) > 0 {
		events := e.untold
		e.untold = nil
		e.mu.Unlock()
		for _, ev := range events {
			e.opts.Log.Info(ev.Message, "class", ev.Class, "kind", ev.Kind, "namespace", ev.Namespace, "source", ev.Source, "open", ev.Open, "reason", ev.Reason)
			if e.opts.OnBreaker != nil {
				e.opts.OnBreaker(ev)
			}
		}
		e.mu.Lock()
	}
	e.telling = false
}

// take returns the next thing to do, if something is due and may be done now. The lock is held and the clock was checked.
func (e *Engine) take(now int64, r reading) *job {
	if !e.running || r.mono < e.pausedTo || e.breakers.blocked(r.mono) > 0 {
		return nil
	}
	e.doChores(now)
	for i := 0; i < len(e.direct); {
		d := e.direct[i]
		if nanos(d.object.Expiry) > now { // S1
			e.direct = slices.Delete(e.direct, i, i+1)
			d.done <- Outcome{Object: d.object, Result: Kept, At: r.at, Err: fmt.Errorf("%s is not due before %s", nameOf(&d.object), d.object.Expiry)}
			continue
		}
		j := &job{object: d.object, kind: e.kinds[d.object.Kind].opts, queue: e.index.queueOf(d.object.Kind), direct: d}
		if !e.room(j.queue, r) {
			i++
			continue
		}
		admitted, _, free := e.admit(j, r)
		if !free {
			break // the rate: it keeps its place
		}
		e.direct = slices.Delete(e.direct, i, i+1)
		if !admitted {
			d.done <- Outcome{Object: d.object, Result: Held, At: r.at, Err: errors.New("deletions of this kind or source are paused")}
			continue
		}
		e.depart(j)
		return j
	}
	for {
		slot, ok := e.earliest(now, r)
		if !ok {
			return nil
		}
		en := e.index.at(slot)
		if en.expiry <= now {
			e.overdue(slot)
		} else {
			en.flags |= flagLive // looked at early, for a reason: never deleted unread (S1)
		}
		j := &job{
			object:     e.index.object(slot),
			kind:       e.kinds[en.kind].opts,
			queue:      e.index.queueOf(en.kind),
			attempt:    int(en.attempts),
			unanswered: en.flags&flagUnanswered != 0,
		}
		admitted, wait, free := e.admit(j, r)
		if !free {
			return nil
		}
		if !admitted {
			// Among those that wait for a breaker, the least tried come first: see breakers.
			en.flags |= flagParked
			back := time.Duration((float64(en.attempts) + e.opts.jitter()) * float64(10*time.Millisecond))
			e.arm(slot, now+int64(max(retryLeast, wait)+back))
			continue
		}
		en.flags &^= flagParked | flagTold
		e.rest(slot, stateInFlight)
		e.depart(j)
		return j
	}
}

// admit asks rates and breakers. free is false if a rate has no room.
func (e *Engine) admit(j *job, r reading) (admitted bool, wait time.Duration, free bool) {
	j.dry = j.object.DryRun || e.opts.DryRun
	j.started = r.mono
	if !j.dry {
		if j.kind.Actor == nil && e.all.wait(r.mono) > 0 || j.object.Backfill && e.backfill.wait(r.mono) > 0 {
			return false, 0, false
		}
	}
	if ok, wait := e.breakers.admit(&j.object, r.mono); !ok {
		return false, wait, true
	}
	if !j.dry {
		if j.kind.Actor == nil { // What an Actor deletes it counts itself: see Reserve.
			e.all.take(r.mono)
		}
		if j.object.Backfill {
			e.backfill.take(r.mono)
		}
	}
	return true, 0, true
}

// earliest is the slot that should be looked at first, if its time has come: that of the queue with the fewest requests under way, and among
// several of these of the one whose last turn was longest ago.
func (e *Engine) earliest(now int64, r reading) (first uint32, found bool) {
	x := e.index
	var of *queue
	full := e.all.wait(r.mono) > 0 && !e.opts.DryRun
	for _, q := range x.queues {
		slot, ok := q.due.top()
		if b, some := q.backfill.top(); some && (!ok || x.less(b, slot)) && (e.backfill.wait(r.mono) == 0 || e.opts.DryRun || x.at(b).flags&flagDryRun != 0) {
			slot, ok = b, true
		}
		if !ok || x.at(slot).wake > now || !e.room(q, r) || full && !q.acts && x.at(slot).flags&flagDryRun == 0 {
			continue
		}
		if !found || q.inFlight < of.inFlight || q.inFlight == of.inFlight && (q.turn < of.turn || q.turn == of.turn && x.less(slot, first)) {
			first, of, found = slot, q, true
		}
	}
	return first, found
}

// sleepFor tells how long nothing can be done, at least a millisecond and at most lookAgain.
func (e *Engine) sleepFor(now int64, r reading, ok bool) time.Duration {
	wait := lookAgain
	sooner := func(d time.Duration) {
		if d > 0 {
			wait = min(wait, d)
		}
	}
	sooner(e.ping.next - r.mono)
	if !ok {
		return max(wait, time.Millisecond)
	}
	for _, q := range e.index.queues {
		sooner(q.pausedTo - r.mono)
	}
	e.index.eachHeap(func(h *heap) {
		if slot, some := h.top(); some {
			sooner(time.Duration(e.index.at(slot).wake - now))
		}
	})
	sooner(e.untilApart(r))
	sooner(e.pausedTo - r.mono)
	sooner(e.breakers.blocked(r.mono))
	sooner(e.all.wait(r.mono))
	sooner(e.backfill.wait(r.mono))
	return max(wait, time.Millisecond)
}

// doChores lets go of old tombstones and reports what is stuck.
func (e *Engine) doChores(now int64) {
	for {
		slot, some := e.index.chores.top()
		if !some || e.index.at(slot).wake > now {
			return
		}
		if e.index.at(slot).state == stateTombstone {
			e.release(slot)
		} else {
			e.reportStuck(slot)
		}
	}
}

// reportStuck says once that an object has been terminating for too long.
func (e *Engine) reportStuck(slot uint32) {
	en := e.index.at(slot)
	since := time.Unix(0, en.wake).Add(-e.opts.StuckAfter).UTC()
	en.flags |= flagStuck
	e.stuck++
	e.index.pull(slot)
	o, kind := e.index.object(slot), e.kinds[en.kind].opts
	e.note(func() {
		e.opts.Log.Info("object is stuck terminating: look at its finalizers", "kind", kind.Kind, "object", nameOf(&o), "uid", o.UID, "deletionTimestamp", since)
		if e.opts.OnStuck != nil {
			e.opts.OnStuck(StuckObject{Object: o, Kind: *kind, Since: since})
		}
	})
}

// DeleteNow deletes one object that need not be tracked, under the same preconditions, limits, rates and breakers, and
// waits for what comes of one attempt, before Run for Run to begin. Conflicts within it are judged by judge (nil: the
// kind's) and tried again at once. What Object.Expiry says is not due is Kept. When ctx ends it answers Held, and a DELETE that
// is under way already may still be accepted.
func (e *Engine) DeleteNow(ctx context.Context, o Object, judge Judge) Outcome {
	d := &direct{object: o, judge: judge, done: make(chan Outcome, 1)}
	e.mu.Lock()
	switch {
	case !e.valid(&o):
		d.done <- Outcome{Object: o, Result: Held, Err: errors.New("kind, UID or name is missing")}
	case e.stopped:
		d.done <- Outcome{Object: o, Result: Held, Err: errors.New("the engine has stopped")}
	default:
		e.direct = append(e.direct, d)
		e.wakeUp()
	}
	e.unlock()
	select {
	case out := <-d.done:
		return out
	case <-ctx.Done():
		e.mu.Lock()
		e.direct = slices.DeleteFunc(e.direct, func(q *direct) bool { return q == d })
		e.unlock()
		return Outcome{Object: o, Result: Held, At: e.read().at, Err: ctx.Err()}
	}
}
