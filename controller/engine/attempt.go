package engine

import (
	"context"
	"fmt"
	"time"

	"curfew.dev/curfew/controller/action"
)

// maxRounds bounds how often one attempt judges again an object that keeps changing, before others
// get their turn.
const maxRounds = 5

// attemptResult is the result of a job.
type attemptResult struct {
	// Result is the last result of the action. A live judgement that failed sets Code, Origin,
	// After and Err.
	action.Result
	// result is reported; empty while there is nothing to report yet.
	result Result
	// refusal is the API server's answer if it did not accept the action.
	refusal string
	// lost: the action sent a request and got no answer.
	lost      bool
	conflicts int
	// sent is the state that was judged last. The action was carried out on this state.
	sent Object
	// again and rest: the action asks for another attempt, or has nothing to do until the object
	// changes.
	again, rest bool
	// postponed: the live judgement found that the object is not due yet, or that deletions are
	// held. The index has that judgement already. held is the reason why no further request was
	// sent.
	postponed bool
	held      error
	deleting  time.Time // deletionTimestamp, if the live read found one
}

// hold postpones the rest of an attempt.
func (res *attemptResult) hold(why error) { res.postponed, res.held, res.Err = true, why, nil }

// attempt carries out the action on one object. If nothing has changed it calls Action.Do once. It
// takes the lock only to record a live judgement.
func (e *Engine) attempt(ctx context.Context, j *job) attemptResult {
	res := attemptResult{sent: j.object}
	due := e.dueOf(j)
	live := j.object.Live || j.kind.UIDOnly || e.opts.Behind != nil && e.opts.Behind()
	for round := 1; ; round++ {
		if live || e.outdated(&res.sent) || j.trigger.Payload && res.sent.Payload == nil {
			if !e.judgeAgain(ctx, j, &res, &due) {
				return res
			}
		}
		if !e.moveTo(ctx, j, &e.requests) {
			res.hold(ErrNoSlot)
			return res
		}
		due.update(&res.sent)
		before := res.Deleted
		res.Result = e.do(ctx, j, due.Due)
		res.Deleted += before
		switch {
		case res.Outcome == action.Conflict && round < maxRounds:
			res.conflicts++
			live, due.conflict, res.Err = true, res.VersionConflict, nil
		case res.Outcome == action.Gone && (!j.trigger.Deletes || e.trackedElsewhere(j)):
			e.confirm(ctx, j, &res, &due)
			return res
		default:
			e.conclude(j, &res)
			return res
		}
	}
}

// due is the argument of the action. conflict: the attempt before failed with a version conflict.
type due struct {
	action.Due
	conflict bool
}

// dueOf returns the argument of the action for a job, without the state of the object.
func (e *Engine) dueOf(j *job) due {
	d := due{Due: action.Due{
		Type: j.kind.Type, Priority: j.trigger.Priority, DryRun: j.dry, Reserve: e.Reserve,
	}}
	if j.batch != nil {
		d.Priority, d.Run = action.Background, j.batch.run
	}
	return d
}

// update fills in the state that was judged last.
func (d *due) update(o *Object) {
	d.Namespace, d.Name, d.UID, d.ResourceVersion = o.Namespace, o.Name, o.UID, o.ResourceVersion
	d.Expiry, d.Source, d.Propagation, d.Payload = o.Expiry, o.Source, o.Propagation, o.Payload
}

func (e *Engine) do(ctx context.Context, j *job, due action.Due) action.Result {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	due.Trigger = j.trigger.Name
	return e.pausable(ctx, j, due)
}

// conclude derives the result to report from the last answer of the action.
func (e *Engine) conclude(j *job, res *attemptResult) {
	switch res.Outcome {
	case action.Again:
		res.again = true
	case action.Held:
		res.hold(ErrHeldByPause)
	case action.Done:
		switch {
		case j.dry:
			res.result = DryRun
		case j.trigger.Deletes:
			res.result = Deleted
		default:
			res.rest = true
		}
	case action.Gone:
		res.result, res.Err = j.missing(), nil
	case action.Conflict:
		res.result = Conflict
		res.Err = fmt.Errorf("%s %s %s: it changed %d times meanwhile: %w", j.trigger.verb(), j.kind.Kind, nameOf(&j.object), maxRounds, res.Err)
	default:
		res.lost = res.Code == 0 && res.Outcome != action.Refused // Nothing was sent for such a refusal.
		if !res.lost {
			res.refusal = res.Err.Error()
		}
		res.result = resultOf(res.Outcome)
		res.Err = fmt.Errorf("%s %s %s: %w", j.trigger.verb(), j.kind.Kind, nameOf(&j.object), res.Err)
	}
}

// missing is the result for an object that does not exist.
func (j *job) missing() Result {
	if j.unanswered {
		return Unconfirmed
	}
	return AlreadyGone
}

func resultOf(o action.Outcome) Result {
	switch o {
	case action.Throttled:
		return Throttled
	case action.Refused:
		return Refused
	default:
		return Failed
	}
}

// confirm reads an object live after a 404, before its other entries are dropped: the answer may be
// about something else, such as a status subresource that the kind does not have.
func (e *Engine) confirm(ctx context.Context, j *job, res *attemptResult, due *due) {
	answer := res.Result
	res.Err = nil
	if e.judgeAgain(ctx, j, res, due) {
		res.result, res.Result = Refused, answer
		res.Outcome = action.Refused
		res.Err = fmt.Errorf("%s %s %s: the object exists, and the answer was %w", j.trigger.verb(), j.kind.Kind, nameOf(&j.object), answer.Err)
	}
}
