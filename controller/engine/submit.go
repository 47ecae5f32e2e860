package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"curfew.dev/curfew/controller/engine/index"
)

// Submit carries out the action of their trigger on objects that need not be tracked, under the
// same preconditions, limits, rates and breakers, but after all tracked objects that are due. Each
// object gets one attempt. If it meets a conflict, the run judges the object and the engine tries
// again at once. Objects that are not due by their Expiry are Kept. Objects that still wait when
// ctx ends are Held. Sources take turns, so that a small batch never waits for all of a large one.
// Batches of one source go in their order, but the leftovers of a batch go before larger batches:
// their run prepares the next one meanwhile.
func (e *Engine) Submit(ctx context.Context, run Run, objects ...Entry) {
	b := &batch{run: run}
	e.mu.Lock()
	defer e.unlock()
	for _, o := range objects {
		switch {
		case !e.valid(&o):
			e.turnDown(b, o, Held, errIncomplete)
		case e.stopped:
			e.turnDown(b, o, Held, errStopped)
		default:
			b.objects = append(b.objects, o)
			e.kinds[o.Kind].enqueued.Inc()
		}
	}
	if len(b.objects) == 0 {
		return
	}
	b.source = b.objects[0].Source
	at := slices.IndexFunc(e.submitted, func(other *batch) bool { return other.source == b.source && len(other.objects) > len(b.objects) })
	if at < 0 {
		at = len(e.submitted)
	}
	e.submitted = slices.Insert(e.submitted, at, b)
	b.release = context.AfterFunc(ctx, func() { e.withdraw(b, ctx.Err()) })
	e.wakeUp()
}

var errStopped = errors.New("the engine has stopped")

// turnDown reports an object without sending a request. The lock is held.
func (e *Engine) turnDown(b *batch, o Entry, result Ending, err error) {
	out := Outcome{Object: o, Result: result, At: e.read().at, Err: err}
	if int(o.Kind) < len(e.kinds) && o.Kind != 0 {
		out.Trigger = e.kinds[o.Kind].trigger.label(o.Phase)
	}
	e.note(func() { b.run.Report(out) })
}

// withdraw turns down the waiting objects of a batch, or with nil of all batches.
func (e *Engine) withdraw(b *batch, why error) {
	e.mu.Lock()
	defer e.unlock()
	e.submitted = slices.DeleteFunc(e.submitted, func(one *batch) bool {
		if b != nil && one != b {
			return false
		}
		for _, o := range one.objects {
			e.turnDown(one, o, Held, why)
		}
		one.objects = nil
		return true
	})
}

// nextSubmitted returns the next submitted object that may be acted on now. The batches of its
// source go to the end of the line. The lock is held.
func (e *Engine) nextSubmitted(now int64, r reading) *job {
	for i := 0; i < len(e.submitted); {
		b := e.submitted[i]
		if b.pause.left(r) > 0 {
			i++
			continue
		}
		j, ok := e.nextOf(b, now, r)
		if !ok {
			return nil
		}
		if j == nil && len(b.objects) > 0 {
			i++
			continue
		}
		if len(b.objects) == 0 {
			e.submitted = slices.Delete(e.submitted, i, i+1)
			e.note(func() { b.release() })
		}
		if j != nil {
			b.pause.sent(r)
			e.turn(b.source)
			return j
		}
	}
	return nil
}

// turn moves the batches of a source to the end of the line. The lock is held.
func (e *Engine) turn(source string) {
	var own []*batch
	e.submitted = slices.DeleteFunc(e.submitted, func(b *batch) bool {
		if b.source == source {
			own = append(own, b)
		}
		return b.source == source
	})
	e.submitted = append(e.submitted, own...)
}

// nextOf returns the next object of a batch that may be acted on now; nil if there is none. ok is
// false if the rate has no room. The lock is held.
func (e *Engine) nextOf(b *batch, now int64, r reading) (j *job, ok bool) {
	for i := 0; i < len(b.objects); {
		o := b.objects[i]
		kind := e.kinds[o.Kind]
		switch {
		case index.Nanos(o.Expiry) > now: // S1
			b.objects = slices.Delete(b.objects, i, i+1)
			e.turnDown(b, o, Kept, fmt.Errorf("%s is not due before %s", nameOf(&o), o.Expiry))
			continue
		case e.onHold(&o):
			b.objects = slices.Delete(b.objects, i, i+1)
			e.turnDown(b, o, Held, ErrHeldByPause)
			continue
		}
		if kind.held || e.room(e.index.Lookup(o.Kind, o.Namespace)) != index.Free {
			i++
			continue
		}
		j := &job{object: o, kind: kind.opts, trigger: kind.trigger, traffic: kind.traffic, batch: b}
		admitted, _, free := e.admit(j, r)
		if !free {
			return nil, false // The batch keeps its place.
		}
		b.objects = slices.Delete(b.objects, i, i+1)
		if !admitted {
			e.turnDown(b, o, Held, ErrPaused)
			continue
		}
		e.begin(j)
		return j, true
	}
	return nil, true
}

// ErrNoSlot is the error of submitted objects that are Held because too much else was under way:
// [Run.Judge] returns it.
var ErrNoSlot = errors.New("no slot became free in time")

// ErrPaused is the error of submitted objects that are Held because a breaker is open.
var ErrPaused = errors.New("deletions of this kind or source are paused")

// ErrUnconfirmed is the error of submitted objects that are Held because the rules were not
// confirmed in time.
var ErrUnconfirmed = fmt.Errorf("the rules could not be confirmed in time: %w", ErrPaused)

// finishSubmitted reports to the run, and buries all entries of an object that is gone.
func (e *Engine) finishSubmitted(j *job, res *attemptResult, out *Outcome, now int64) {
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
	report := *out
	e.note(func() { j.batch.run.Report(report) })
}
