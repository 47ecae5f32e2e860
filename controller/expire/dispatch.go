package expire

import (
	"context"
	"errors"
	"math"
	"time"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
	"curfew.dev/curfew/policy"
)

const (
	// lookAgain bounds how long the dispatcher sleeps: a timer runs on monotonic time, so it would
	// not notice that the clock was set forward.
	lookAgain = time.Second
	// minRetry is the shortest wait before an overdue object is tried again: never 0 or negative.
	minRetry = time.Second
)

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
	started := e.read().mono
	e.all.Exhaust(started)
	e.backfill.Exhaust(started)
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
	e.summarizeFirst(r)
	if e.summary.due(r.mono, summaryEvery) {
		e.summarize(r)
		e.closeIdle(r)
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

// next returns the next job of a tracked object that is due and may begin now. If there is none, it
// begins those of other objects. The lock is held and the clock was checked.
func (e *Engine) next(now int64, r reading) *job {
	if !e.running || e.pause.left(r) > 0 || e.breakers.blocked(r.mono) > 0 {
		return nil
	}
	e.doChores(now)
	if !e.passable(now, len(e.lines) > 0) || !e.rulesConfirmed(now) {
		return nil
	}
	if e.full() {
		return nil
	}
	j := e.nextTracked(now, r)
	if j == nil {
		e.grant(now, r)
		return nil
	}
	e.pause.sent(r)
	return j
}

// rulesConfirmed reports whether the rules were confirmed so lately that work may begin. It
// requests that if anything is due, or soon will be, and no pause holds everything. The lock is
// held.
func (e *Engine) rulesConfirmed(now int64) bool {
	if e.opts.Rules == nil || len(e.lines) == 0 && !e.dueBy(now+int64(deletion.Ahead)) {
		return true
	}
	held := true
	for _, t := range e.triggers {
		held = held && e.paused.view.HoldsAll(policy.Trigger(t.Name))
	}
	if held {
		return true
	}
	e.opts.Rules.Want()
	return deletion.Age(e.opts.Clock.Now(), e.opts.Rules.Confirmed()) < deletion.MaxRules
}

// restOnRules notes when the rules were confirmed by which a job was judged. A change that was
// reported until then makes the job outdated, so ask that afterwards.
func (e *Engine) restOnRules(j *job) {
	if e.opts.Rules != nil {
		j.confirmed = e.opts.Rules.Confirmed()
	}
}

// dueBy reports whether an entry has to be looked at by an instant.
func (e *entries) dueBy(nanos int64) bool {
	next, found, due := e.index.NextWake()
	return due || found && next <= nanos
}

// nextTracked returns the next job of a tracked object. Claimed backfill yields to proven backfill
// that may begin: a forged stamp must not use up the rate of others.
func (e *Engine) nextTracked(now int64, r reading) *job {
	limited := func(limit *deletion.Rate) bool { return limit.Wait(r.mono) > 0 && !e.opts.DryRun }
	order := [...]index.Class{index.Deletions, index.Others, index.Backfill, index.Claimed}
	if e.othersFirst = !e.othersFirst; e.othersFirst {
		order[0], order[1] = order[1], order[0]
	}
	for _, class := range order {
		if class != index.Others && limited(&e.all) || class >= index.Backfill && limited(&e.backfill) {
			continue
		}
		for {
			slot, ok := e.index.Next(class, now, e.room)
			if !ok {
				break
			}
			if j := e.jobOf(slot, now, r); j != nil {
				return j
			}
		}
	}
	return nil
}

// jobOf begins a job for a due entry. If something holds the entry, it waits and there is no job.
func (e *Engine) jobOf(slot uint32, now int64, r reading) *job {
	en := e.index.At(slot)
	if en.Expiry <= now {
		e.overdue(slot)
	} else {
		en.Flags |= index.FlagLive // Woken before its expiry: judge it live before acting (S1).
	}
	kind := e.kinds[en.Kind]
	j := &job{
		object:     e.index.Entry(slot),
		kind:       kind.opts,
		trigger:    kind.trigger,
		traffic:    kind.traffic,
		attempt:    int(en.Attempts),
		unanswered: en.Flags&index.FlagUnanswered != 0,
	}
	if kind.held || e.onHold(&j.object) {
		e.park(slot, now, !kind.held)
		return nil
	}
	if j.trigger.Payload {
		j.object.Payload = e.payloads.get(j.trigger, &j.object)
	}
	if admitted, wait, _ := e.admit(j, r); !admitted {
		// Of the entries that wait for a breaker, the least tried ones come first: see breakers.
		en.Flags |= index.FlagParked
		back := time.Duration((float64(en.Attempts) + e.opts.jitter()) * float64(10*time.Millisecond))
		e.enter(slot, index.Armed, now+int64(max(minRetry, wait)+back))
		return nil
	}
	en.Flags &^= index.FlagParked | index.FlagUpserted
	e.begin(j)
	e.rest(slot, index.InFlight)
	return j
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
				case j != nil && !e.full():
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

// sleepFor returns how long nothing can be done, at least a millisecond and at most lookAgain.
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
	if nanos, found, _ := e.index.NextWake(); found {
		sooner(time.Duration(nanos - now))
		sooner(time.Duration(nanos-now) - deletion.Ahead)
	}
	if slot, some := e.index.Chores().Top(); some {
		sooner(time.Duration(e.index.At(slot).Wake - now))
	}
	sooner(e.untilApart(r))
	sooner(e.pause.left(r))
	sooner(e.breakers.blocked(r.mono))
	sooner(e.all.Wait(r.mono))
	sooner(e.backfill.Wait(r.mono))
	return max(wait, time.Millisecond)
}

// doChores drops old tombstones and reports objects that are stuck.
func (e *Engine) doChores(now int64) {
	for {
		slot, some := e.index.Chores().Top()
		if !some || e.index.At(slot).Wake > now {
			return
		}
		if e.index.At(slot).State == index.Tombstone {
			e.release(slot)
		} else {
			e.reportStuck(slot)
		}
	}
}

// reportStuck reports once that an object has been terminating for too long.
func (e *Engine) reportStuck(slot uint32) {
	en := e.index.At(slot)
	since := time.Unix(0, en.Wake).Add(-e.opts.StuckAfter).UTC()
	en.Flags |= index.FlagStuck
	e.stuck++
	e.index.Pull(slot)
	o, kind := e.index.Entry(slot), e.kinds[en.Kind].opts
	e.note(func() {
		e.opts.Log.Info("object is stuck terminating: look at its finalizers", "kind", kind.Kind, "object", nameOf(&o), "uid", o.UID,
			"deletionTimestamp", since)
		if e.opts.OnStuck != nil {
			e.opts.OnStuck(StuckObject{Object: o, Kind: *kind, Since: since})
		}
	})
}
