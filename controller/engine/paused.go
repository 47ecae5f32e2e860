package engine

import (
	"context"
	"errors"
	"time"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/pause"
	"curfew.dev/curfew/policy"
)

// ErrHeldByPause is the error of submitted objects that are Held because of a DeletionPause.
var ErrHeldByPause = errors.New("held by a pause")

// heldFor is how long a held entry waits, unless the pauses change before.
const heldFor = time.Minute

// paused is the view of pauses that the engine acts by.
type paused struct {
	view   pause.View
	parked bool // entries wait for a change of the view
}

// passable reports whether the engine knows the current pauses. If an entry is due, or soon will
// be, it requests a read of the pauses. The lock is held.
func (e *Engine) passable(now int64) bool {
	if e.opts.Pauses == nil {
		return true
	}
	if !e.paused.parked && len(e.submitted) == 0 && !e.dueBy(now+int64(pause.Ahead)) {
		return true // There is nothing to hold.
	}
	e.opts.Pauses.Want()
	view, known := e.opts.Pauses.View()
	if !known {
		return false
	}
	if before := e.paused; before.view.Version != view.Version {
		e.paused = paused{view: view}
		if before.parked {
			e.rewake(now, func(en *entry) bool { return en.state == stateArmed && en.flags&flagParked != 0 })
		}
	}
	return true
}

// dueBy reports whether an entry has to be looked at by an instant.
func (e *Engine) dueBy(at int64) (found bool) {
	for _, q := range e.index.queues {
		q.partitions(func(p *partition) {
			for _, h := range p.heaps() {
				slot, some := h.top()
				found = found || some && e.index.at(slot).wake <= at
			}
		})
	}
	return found
}

// onHold reports whether a pause holds an object. The lock is held.
func (e *Engine) onHold(o *Object) bool {
	if e.opts.Pauses == nil {
		return false
	}
	k := e.kinds[o.Kind]
	return e.paused.view.Holds(policy.Trigger(k.trigger.Name), scopeOf(k.opts, o))
}

// park makes an entry wait until the pauses change, or Engine.Hold lets its kind go on.
func (e *Engine) park(slot uint32, now int64, byPause bool) {
	en := e.index.at(slot)
	if en.expiry <= now {
		e.overdue(slot)
	}
	e.paused.parked = e.paused.parked || byPause
	en.flags |= flagParked
	e.arm(slot, now+int64(heldFor)+int64(e.opts.jitter()*float64(heldFor)))
}

func scopeOf(k *KindOptions, o *Object) string {
	return policy.PauseScope(k.Resource.Group, k.Kind, o.Namespace, o.Name)
}

// pausable carries out an action whose requests a pause may hold at the last moment.
func (e *Engine) pausable(ctx context.Context, j *job, due action.Due) action.Result {
	ctx, mark := pause.With(ctx, policy.Trigger(j.trigger.Name), scopeOf(j.kind, &j.object))
	out := j.trigger.Action.Do(ctx, due)
	if mark.Held() {
		out = action.Result{Outcome: action.Held, Deleted: out.Deleted}
	}
	return out
}
