package expire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
	"curfew.dev/curfew/policy"
)

// maxRounds bounds how often one attempt judges again an object that keeps changing, before others
// get their turn.
const maxRounds = 5

// attempt carries out the action on one object. If nothing has changed it calls Action.Do once. It
// takes the lock only to record a live judgement.
func (e *Engine) attempt(ctx context.Context, j *job) attemptResult {
	res := attemptResult{sent: j.object}
	due := e.dueOf(j)
	e.restOnRules(j) // Before outdated is asked.
	live := j.object.Live || j.kind.UIDOnly || e.opts.Behind != nil && e.opts.Behind()
	for round := 1; ; round++ {
		if live || e.outdated(&res.sent) || j.trigger.Payload && res.sent.Payload == nil {
			if !e.judgeAgain(ctx, j, &res, &due) {
				return res
			}
		}
		due.update(&res.sent)
		before := res.Deleted
		res.Answer = e.do(ctx, j, due.Due)
		res.Deleted += before
		switch {
		case res.Outcome == deletion.Conflict && round < maxRounds:
			res.conflicts++
			live, due.conflict, res.Err = true, res.VersionConflict, nil
		case res.Outcome == deletion.Gone && (!j.trigger.Deletes || e.trackedElsewhere(j)):
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
	deletion.Due
	conflict bool
}

// dueOf returns the argument of the action for a job, without the state of the object.
func (e *Engine) dueOf(j *job) due {
	return due{Due: deletion.Due{Type: j.kind.Type, DryRun: j.dry, Reserve: e.Reserve}}
}

// update fills in the state that was judged last.
func (d *due) update(o *Entry) {
	d.Namespace, d.Name, d.UID, d.ResourceVersion = o.Namespace, o.Name, o.UID, o.ResourceVersion
	d.Expiry, d.Source, d.Propagation, d.Payload = o.Expiry, o.Source, o.Propagation, o.Payload
}

// do carries out the action, for a bounded time. A pause may hold its requests at the last moment.
func (e *Engine) do(ctx context.Context, j *job, due deletion.Due) deletion.Answer {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ctx, mark := deletion.WithMark(ctx, policy.Trigger(j.trigger.Name), scopeOf(j.kind, &j.object))
	mark.Confirmed(j.confirmed)
	due.Trigger = j.trigger.Name
	var do deletion.Action = j.work
	if j.work == nil {
		do = j.trigger.Action
	}
	out := do.Do(ctx, due)
	if mark.Held() {
		out = deletion.Answer{Outcome: deletion.Held, Deleted: out.Deleted}
	}
	return out
}

// conclude derives the result to report from the last answer of the action.
func (e *Engine) conclude(j *job, res *attemptResult) {
	switch res.Outcome {
	case deletion.Again:
		res.again = true
	case deletion.Held:
		if errors.Is(res.Err, ErrNoSlot) {
			res.hold(res.Err)
			return
		}
		res.hold(ErrHeldByPause)
		if !j.confirmed.IsZero() && deletion.Age(e.opts.Clock.Now(), j.confirmed) >= deletion.MaxRules {
			res.hold(ErrUnconfirmed)
		}
	case deletion.Done:
		switch {
		case j.dry:
			res.reported = DryRun
		case j.trigger.Deletes:
			res.reported = Deleted
		default:
			res.rest = true
		}
	case deletion.Gone:
		res.reported, res.Err = j.missing(), nil
	case deletion.Conflict:
		res.reported = Conflict
		res.Err = fmt.Errorf("%s %s %s: it changed %d times meanwhile: %w", j.trigger.verb(), j.kind.Kind, nameOf(&j.object), maxRounds, res.Err)
	default:
		res.lost = res.Code == 0 && res.Outcome != deletion.Refused // Nothing was sent for such a refusal.
		if !res.lost {
			res.refusal = res.Err.Error()
		}
		res.reported = resultOf(res.Outcome)
		res.Err = fmt.Errorf("%s %s %s: %w", j.trigger.verb(), j.kind.Kind, nameOf(&j.object), res.Err)
	}
}

func resultOf(o deletion.Class) Ending {
	switch o {
	case deletion.Throttled:
		return Throttled
	case deletion.Refused:
		return Refused
	default:
		return Failed
	}
}

// trackedElsewhere reports whether the object of a job has an entry other than the job's own.
func (e *entries) trackedElsewhere(j *job) bool {
	e.mu.Lock()
	defer e.unlock()
	return slices.ContainsFunc(e.index.All(j.object.UID), func(slot uint32) bool {
		en := e.index.At(slot)
		return (j.work != nil || en.Trigger != j.trigger.id) && en.State != index.Tombstone
	})
}

// confirm reads an object live after a 404, before its other entries are dropped: the answer may be
// about something else, such as a status subresource that the kind does not have.
func (e *Engine) confirm(ctx context.Context, j *job, res *attemptResult, due *due) {
	answer := res.Answer
	res.Err = nil
	if e.judgeAgain(ctx, j, res, due) {
		res.reported, res.Answer = Refused, answer
		res.Outcome = deletion.Refused
		res.Err = fmt.Errorf("%s %s %s: the object exists, and the answer was %w", j.trigger.verb(), j.kind.Kind, nameOf(&j.object), answer.Err)
	}
}

// judgeAgain reads and judges the object of a job live and reports whether to go on with the
// action. If not, res says why.
func (e *Engine) judgeAgain(ctx context.Context, j *job, res *attemptResult, due *due) (proceed bool) {
	jd, err := e.judge(ctx, j, res.sent)
	switch {
	case errors.Is(err, ErrNoSlot):
		res.hold(ErrNoSlot)
		return false
	case err != nil:
		res.unjudged(fmt.Errorf("re-reading %s %s: %w", j.kind.Kind, nameOf(&j.object), err))
		return false
	}
	if due.conflict && jd.Object.ResourceVersion == res.sent.ResourceVersion {
		due.Disproved++
	} else {
		due.Disproved = 0
	}
	due.conflict, due.Finalizers = false, jd.Finalizers
	switch jd.Verdict {
	case Keep:
		res.reported = Kept
		return false
	case Gone:
		res.reported = j.missing()
		return false
	case BeingDeleted:
		res.reported, res.deleting = AlreadyGone, jd.Since
		return false
	case Track:
	default:
		res.unjudged(fmt.Errorf("verdict %d of %s %s is unknown: this is a bug", jd.Verdict, j.kind.Kind, nameOf(&j.object)))
		return false
	}
	e.keepUp(ctx, &jd)
	if !e.accept(j, res, &jd.Object) { // Much may have changed by now.
		return false
	}
	if j.trigger.Payload && res.sent.Payload == nil {
		res.unjudged(fmt.Errorf("the judgement of %s %s has no payload: this is a bug", j.kind.Kind, nameOf(&j.object)))
		return false
	}
	return true
}

func (e *Engine) judge(ctx context.Context, j *job, o Entry) (Judgement, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	judge := j.kind.Judge
	if j.work != nil {
		judge = j.work.Judge
	}
	epoch := e.Epoch()
	j.confirmed = e.opts.Clock.Now() // It reads the rules.
	jd, err := judge(ctx, o)
	jd.Object.Epoch = epoch
	return jd, err
}

// keepUp judges again, by caches, if rules changed during a live judgement. The caches know of each
// change that makes a judgement outdated. Another live judgement would take as long as this one,
// and rules that change more often than that would hold a due object for ever.
func (e *Engine) keepUp(ctx context.Context, jd *Judgement) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for round := 0; round < maxRounds && jd.Agrees != nil && e.outdated(&jd.Object); round++ {
		epoch := e.Epoch()
		if !jd.Agrees(ctx) {
			return
		}
		jd.Object.Epoch = epoch
	}
}

// accept records a live judgement with verdict Track, and reports whether to go on with the action.
func (e *Engine) accept(j *job, res *attemptResult, judged *Entry) (proceed bool) {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	now, ok := e.checkClock(r)
	if judged.Expiry.IsZero() || !e.valid(judged) {
		res.reported = Kept
		return false
	}
	if judged.UID != j.object.UID {
		// Re-created under the same name (S2): the old object is gone, and the new one is tracked
		// on its own.
		res.reported = AlreadyGone
		if j.work == nil {
			// A watch may have shown a newer state by now: treat this one like a list.
			e.apply(judged, now, fromRelist)
		}
		return false
	}
	if j.work == nil && !e.writeJudgement(j, res, judged, now) {
		res.postponed = true
		return false
	}
	res.sent = *judged
	switch {
	case e.outdatedLocked(judged) || e.kinds[j.object.Kind].held:
		// Something that concerns it changed during the live read: judge again before anything is
		// sent. An untracked object is not kept for that, but held.
		res.held = ErrRulesChanged
	case !ok || index.Nanos(judged.Expiry) > now:
	case (judged.DryRun || e.opts.DryRun) != j.dry || judged.Backfill != j.object.Backfill || judged.Claimed() != j.object.Claimed():
		// It was admitted under other rates than apply now: start over.
	default:
		return true
	}
	res.postponed = true
	return false
}

// writeJudgement writes a live judgement into the entry of a job, and reports whether nothing newer
// is known. The lock is held.
func (e *Engine) writeJudgement(j *job, res *attemptResult, judged *Entry, now int64) bool {
	slot, still := e.lookup(j.object.Kind, j.object.UID)
	if !still || e.index.At(slot).State != index.InFlight {
		return false // Cancelled or removed meanwhile by a watch that may know more: leave it at that.
	}
	en := e.index.At(slot)
	if en.Compare(res.sent.ResourceVersion) != index.Same && en.Compare(judged.ResourceVersion) == index.Older {
		// During the read the watch showed a state that is newer than the answer: judge again. (A
		// higher version that the entry had before the read proves nothing: etcd may have been
		// restored.)
		return false
	}
	if e.contradicted(slot, j, &res.sent, judged, now) {
		return false
	}
	e.write(slot, judged)
	return true
}

// contradicted reports whether a live judgement conflicts with another judgement of the same state:
// a feed judged it meanwhile, after the context of the object had changed, or the kind has other
// rules now. Neither judgement is known to be newer, so the object is kept for now (S6). The lock
// is held.
func (e *Engine) contradicted(slot uint32, j *job, sent, seen *Entry, now int64) bool {
	if e.kinds[j.object.Kind].opts != j.kind {
		return true
	}
	en := e.index.At(slot)
	if order := en.Compare(seen.ResourceVersion); order == index.Older || order == index.Newer {
		return false
	}
	return en.Expiry > now && en.Expiry != index.Nanos(sent.Expiry) || en.Flags&index.FlagDryRun != 0 && !sent.DryRun && !seen.DryRun
}

// unjudged records that the live judgement failed. It classifies errors of the API server as if the
// action had got them.
func (res *attemptResult) unjudged(err error) {
	var network net.Error
	out, answered := deletion.FailureOf(err)
	switch {
	case errors.As(err, &network):
		out = deletion.Failure(0, deletion.FromResource, err)
	case !answered:
		out = deletion.Failure(codeUnjudged, deletion.FromResource, err)
	case out.Code == http.StatusNotFound || out.Code == http.StatusConflict:
		// The judge answers Gone for an object that is not there; this is about something else.
		out.Outcome, out.Code = deletion.Failed, http.StatusInternalServerError
	}
	out.Err, out.Latency = err, res.Latency
	res.Answer, res.reported, res.unread = out, resultOf(out.Outcome), true
}
