package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Run is what objects are submitted for, such as one run of a cleanup policy. It is also the handle
// that the action gets as Due.Run.
type Run interface {
	// Judge reads one of its objects live and judges it, like the Judge of a kind.
	Judge(ctx context.Context, o Object) (Judgement, error)
	// Report gets one outcome of each object, from the worker that acted. It must not block.
	Report(o Outcome)
}

// submission is an object that waits for its one attempt, and batch what was submitted with it.
type submission struct {
	object Object
	batch  *batch
}

type batch struct {
	run     Run
	pending int         // not begun yet
	release func() bool // forgets the context
}

// Submit has the action of their trigger carried out on objects that need not be tracked, under the
// same preconditions, limits, rates and breakers, but after everything that is tracked and due.
// Each gets one attempt. Conflicts within it are judged by the run and tried again at once. What
// Object.Expiry says is not due is Kept. What still waits when ctx ends is Held.
func (e *Engine) Submit(ctx context.Context, run Run, objects ...Object) {
	b := &batch{run: run}
	e.mu.Lock()
	defer e.unlock()
	for _, o := range objects {
		switch {
		case !e.valid(&o):
			e.turnDown(b, o, Held, errors.New("kind, UID or name is missing"))
		case e.stopped:
			e.turnDown(b, o, Held, errStopped)
		default:
			e.submitted = append(e.submitted, submission{o, b})
			b.pending++
		}
	}
	b.release = context.AfterFunc(ctx, func() { e.withdraw(b, ctx.Err()) })
	e.wakeUp()
}

var errStopped = errors.New("the engine has stopped")

// turnDown reports an object for which nothing is sent. The lock is held.
func (e *Engine) turnDown(b *batch, o Object, result Result, err error) {
	out := Outcome{Object: o, Result: result, At: e.read().at, Err: err}
	if int(o.Kind) < len(e.kinds) && o.Kind != 0 {
		out.Trigger = e.kinds[o.Kind].trigger.label(o.Phase)
	}
	e.note(func() { b.run.Report(out) })
}

// withdraw turns down what still waits of a batch, or with nil of all.
func (e *Engine) withdraw(b *batch, why error) {
	e.mu.Lock()
	defer e.unlock()
	e.submitted = slices.DeleteFunc(e.submitted, func(s submission) bool {
		if b != nil && s.batch != b {
			return false
		}
		e.turnDown(s.batch, s.object, Held, why)
		return true
	})
}

// nextSubmitted returns the next submitted object that may be acted on now. The lock is held.
func (e *Engine) nextSubmitted(now int64, r reading) *job {
	for i := 0; i < len(e.submitted); {
		s := e.submitted[i]
		kind := e.kinds[s.object.Kind]
		j := &job{object: s.object, kind: kind.opts, trigger: kind.trigger, queue: e.index.queueOf(s.object.Kind), run: s.batch.run}
		switch {
		case nanos(s.object.Expiry) > now: // S1
			e.unsubmit(i)
			e.turnDown(s.batch, s.object, Kept, fmt.Errorf("%s is not due before %s", nameOf(&s.object), s.object.Expiry))
			continue
		case !e.room(j.queue, r):
			i++
			continue
		}
		admitted, _, free := e.admit(j, r)
		if !free {
			return nil // the rate: it keeps its place
		}
		e.unsubmit(i)
		if !admitted {
			e.turnDown(s.batch, s.object, Held, errors.New("deletions of this kind or source are paused"))
			continue
		}
		e.depart(j)
		return j
	}
	return nil
}

// unsubmit takes a submission out of the list. The lock is held.
func (e *Engine) unsubmit(i int) {
	b := e.submitted[i].batch
	e.submitted = slices.Delete(e.submitted, i, i+1)
	if b.pending--; b.pending == 0 {
		e.note(func() { b.release() })
	}
}
