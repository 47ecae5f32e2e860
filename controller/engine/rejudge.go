package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"curfew.dev/curfew/controller/action"
)

// codeUnjudged stands for the HTTP status of a live judgement that failed without an answer of the
// API server as its cause.
const codeUnjudged = -1

// judgeAgain reads and judges the object of a job live and reports whether to go on with the
// action. If not, res says why.
func (e *Engine) judgeAgain(ctx context.Context, j *job, res *attemptResult, due *due) (proceed bool) {
	if !e.moveTo(ctx, j, &e.judgements) {
		res.hold(ErrNoSlot)
		return false
	}
	jd, err := e.judge(ctx, j, res.sent)
	switch {
	case errors.Is(err, ErrNoSlot):
		res.hold(ErrNoSlot)
		return false
	case err != nil:
		res.unjudged(fmt.Errorf("judging %s %s afresh: %w", j.kind.Kind, nameOf(&j.object), err))
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
		res.result = Kept
		return false
	case Gone:
		res.result = j.missing()
		return false
	case BeingDeleted:
		res.result, res.deleting = AlreadyGone, jd.Since
		return false
	case Track:
	default:
		res.unjudged(fmt.Errorf("verdict %d of %s %s is unknown: this is a bug", jd.Verdict, j.kind.Kind, nameOf(&j.object)))
		return false
	}
	if !e.moveTo(ctx, j, &e.requests) {
		res.hold(ErrNoSlot)
		return false
	}
	if !e.accept(j, res, &jd.Object) { // Much may have changed by now.
		return false
	}
	if j.trigger.Payload && res.sent.Payload == nil {
		res.unjudged(fmt.Errorf("the judgement of %s %s has no payload: this is a bug", j.kind.Kind, nameOf(&j.object)))
		return false
	}
	return true
}

func (e *Engine) judge(ctx context.Context, j *job, o Object) (Judgement, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	judge := j.kind.Judge
	if j.batch != nil {
		judge = j.batch.run.Judge
	}
	epoch := e.Epoch()
	jd, err := judge(ctx, o)
	jd.Object.Epoch = epoch
	return jd, err
}

// accept records a live judgement with verdict Track, and reports whether to go on with the action.
func (e *Engine) accept(j *job, res *attemptResult, judged *Object) (proceed bool) {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	now, ok := e.checkClock(r)
	if judged.Expiry.IsZero() || !e.valid(judged) {
		res.result = Kept
		return false
	}
	if judged.UID != j.object.UID {
		// Re-created under the same name (S2): the old object is gone, and the new one is tracked
		// on its own.
		res.result = AlreadyGone
		if j.batch == nil {
			// A watch may have shown a newer state by now: treat this one like a list.
			e.apply(judged, now, fromRelist)
		}
		return false
	}
	if j.batch == nil && !e.writeJudgement(j, res, judged, now) {
		res.postponed = true
		return false
	}
	res.sent = *judged
	switch {
	case e.outdatedLocked(judged) || e.kinds[j.object.Kind].held:
		// Something that concerns it changed during the live read: judge again before anything is
		// sent.
	case !ok || nanos(judged.Expiry) > now:
	case (judged.DryRun || e.opts.DryRun) != j.dry || judged.Backfill != j.object.Backfill || judged.claimed() != j.object.claimed():
		// It was admitted under other rates than apply now: start over.
	default:
		return true
	}
	res.postponed = true
	return false
}

// writeJudgement writes a live judgement into the entry of a job, and reports whether nothing newer
// is known. The lock is held.
func (e *Engine) writeJudgement(j *job, res *attemptResult, judged *Object, now int64) bool {
	slot, still := e.lookup(j.object.Kind, j.object.UID)
	if !still || e.index.at(slot).state != stateInFlight {
		return false // Cancelled or removed meanwhile by a watch that may know more: leave it at that.
	}
	en := e.index.at(slot)
	if compareVersion(en, res.sent.ResourceVersion) != same && compareVersion(en, judged.ResourceVersion) == older {
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
func (e *Engine) contradicted(slot uint32, j *job, sent, seen *Object, now int64) bool {
	if e.kinds[j.object.Kind].opts != j.kind {
		return true
	}
	en := e.index.at(slot)
	if order := compareVersion(en, seen.ResourceVersion); order == older || order == newer {
		return false
	}
	return en.expiry > now && en.expiry != nanos(sent.Expiry) || en.flags&flagDryRun != 0 && !sent.DryRun && !seen.DryRun
}

// unjudged records that the live judgement failed. It classifies errors of the API server as if the
// action had got them.
func (res *attemptResult) unjudged(err error) {
	var network net.Error
	out, answered := action.FailureOf(err)
	switch {
	case errors.As(err, &network):
		out = action.Failure(0, action.FromResource, err)
	case !answered:
		out = action.Failure(codeUnjudged, action.FromResource, err)
	case out.Code == http.StatusNotFound || out.Code == http.StatusConflict:
		// The judge answers Gone for an object that is not there; this is about something else.
		out.Outcome, out.Code = action.Failed, http.StatusInternalServerError
	}
	out.Err, out.Latency = err, res.Latency
	res.Result, res.result = out, resultOf(out.Outcome)
}
