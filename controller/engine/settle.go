package engine

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// backoffFirst and backoffMost bound how long an entry waits before it is tried again. There is no last attempt.
	backoffFirst = retryLeast
	backoffMost  = 5 * time.Minute
	// backoffTrouble bounds it where the fault is not the object's: no answer, or an error of the 500s.
	backoffTrouble = 30 * time.Second
	// pauseMost bounds for how long one Retry-After pauses everything.
	pauseMost = 30 * time.Second
)

// backoff is the wait after the nth failure in a row, n from 1: doubling, at least a second, up to 30% longer by chance so that
// what failed together does not come back together.
func backoff(n int, most time.Duration, chance float64) time.Duration {
	d := most
	if n < 16 {
		d = min(most, backoffFirst<<(n-1))
	}
	return d + time.Duration(chance*0.3*float64(d))
}

// settle writes down what came of a job. The lock is held. stopped: the engine is stopping, so a failure says nothing.
func (e *Engine) settle(j *job, res attemptResult, r reading, stopped bool) {
	e.arrive(j, &res, r)
	e.setApart(r)
	now, _ := e.checkClock(r)
	// What a kind does to its own requests says nothing of the API server: how long they take, and failures that have paused the kind already.
	troubled := res.troubled(j.kind)
	its := e.alone(j, r) || res.result == Failed && e.breakers.shut(scopeKind(j.object.Kind)) || res.result == Throttled && (!troubled || e.singled(j.queue))
	if !its && (res.latency > 0 || res.code > 0 && (j.kind.Actor == nil || troubled)) {
		e.conc.observe(sample{at: r.mono, latency: res.latency, inFlight: e.inFlight + 1, refused: troubled})
	}
	if !j.dry {
		// What got no answer may have been carried out. An Actor's steps are no deletions of what is tracked.
		happened := res.result == Deleted || res.lost
		if j.kind.Actor == nil {
			e.all.settle(r.mono, happened)
		}
		if j.object.Backfill {
			e.backfill.settle(r.mono, happened)
		}
	}
	out := Outcome{Object: res.sent, Result: res.result, At: time.Unix(0, now).UTC(), Err: res.err}
	if res.result == Deleted {
		out.Lateness = max(0, out.At.Sub(res.sent.Expiry))
	}
	e.judgeScopes(j, &res, r)
	if j.direct != nil {
		if res.postponed {
			out.Result = Kept
		}
		if out.Result == Deleted || out.Result == Other && res.deleting.IsZero() || out.Result == Unconfirmed {
			e.deletedElsewhere(j.object.UID, now)
		}
		j.direct.done <- out
	} else {
		e.settleEntry(j, &res, now, r)
	}
	if stopped && !out.Result.Final() || out.Result == "" && (res.postponed || res.again > 0 || res.rest) {
		return
	}
	e.record(j, &res, out, r)
}

// troubled tells whether an answer is a reason to ask for less at a time.
func (res *attemptResult) troubled(k *KindOptions) bool {
	return res.overloaded(k) || res.result == Failed && res.code != codeUnjudged && res.origin != FromAdmission
}

// judgeScopes lets the breakers know.
func (e *Engine) judgeScopes(j *job, res *attemptResult, r reading) {
	b, o := e.breakers, &j.object
	fresh := j.attempt == 0
	closed, opened := make([]scopeKey, 0, 3), scopeKey{}
	var reason string
	success := func(k scopeKey) {
		if b.succeed(k) {
			closed = append(closed, k)
		}
	}
	fail := func(k scopeKey, why string) {
		if b.fail(k, why, fresh, r.mono) {
			opened, reason = k, why
		}
	}
	switch {
	case res.postponed && res.result == "":
		return
	case res.err != nil && res.origin == FromAdmission:
		// Whatever code it has, it is one webhook's or policy's, which may concern a single namespace.
		success(scopeAll())
		success(scopeKind(o.Kind))
		fail(scopeSource(o), ReasonRefused)
	case res.result == Throttled:
		success(scopeAll())
	case res.result == Failed && res.code == 0 && e.unheard(j, r):
		fail(scopeKind(o.Kind), ReasonUnreachable)
	case res.result == Failed && res.code == 0:
		fail(scopeAll(), ReasonUnreachable)
	case res.code == http.StatusUnauthorized:
		fail(scopeAll(), ReasonRefused)
	case res.code == codeUnjudged:
		fail(scopeSource(o), ReasonUnjudged)
	case res.result == Failed:
		success(scopeAll())
		fail(scopeKind(o.Kind), ReasonServerErrors)
	case res.result == Refused:
		success(scopeAll())
		success(scopeKind(o.Kind))
		fail(scopeSource(o), ReasonRefused)
	case res.result == Conflict:
		success(scopeAll())
		success(scopeKind(o.Kind))
	default:
		success(scopeAll())
		success(scopeKind(o.Kind))
		success(scopeSource(o))
	}
	kind := j.kind.Kind
	if opened.class != "" {
		e.tell(opened.event(true, reason, kind, r.at))
	}
	if len(closed) > 0 {
		for _, k := range closed {
			e.tell(k.event(false, "", kind, r.at))
		}
		// What was parked, or backed off for the same trouble, goes at once.
		now, _ := e.guard.now(r)
		e.rewake(now, func(en *entry) bool { return en.state == stateArmed && en.flags&flagParked != 0 })
	}
}

// closeIdle closes scopes for which nothing waits any more, as when all objects of a namespace went with it: nobody would ever prove that
// they can be closed. The lock is held.
func (e *Engine) closeIdle(r reading) {
	for _, k := range e.breakers.idle(r.mono) {
		if e.waitsFor(k) {
			e.breakers.scopes[k].asked = r.mono
			continue
		}
		e.breakers.succeed(k)
		kind := ""
		if k.kind != 0 {
			kind = e.kinds[k.kind].opts.Kind
		}
		e.tell(k.event(false, "", kind, r.at))
	}
}

// waitsFor tells whether an object is tracked whose deletion a scope holds back, or will. It walks the whole index: for rare events.
func (e *Engine) waitsFor(k scopeKey) (found bool) {
	for c, more := 0, true; more && !found; c++ {
		more = e.index.each(c, func(slot uint32, en *entry) {
			if found || en.state != stateArmed && en.state != stateInFlight || en.flags&flagLate == 0 {
				return
			}
			switch o := e.index.object(slot); k.class {
			case classAPIServer:
				found = true
			case classKind:
				found = scopeKind(o.Kind) == k
			default:
				found = scopeSource(&o) == k
			}
		})
	}
	return found
}

// settleEntry brings the entry into the state that follows.
func (e *Engine) settleEntry(j *job, res *attemptResult, now int64, r reading) {
	gone := res.deleting.IsZero() && (res.result == Deleted || res.result == Other || res.result == Unconfirmed)
	if gone {
		e.goneInOtherLanes(j.object.UID, e.kinds[j.object.Kind].opts.Lane, now)
	}
	slot, ok := e.lookup(j.object.Kind, j.object.UID)
	if !ok {
		return // removed meanwhile
	}
	en := e.index.at(slot)
	if en.state != stateInFlight {
		// Removed and tracked anew meanwhile, or terminating. That the object is gone is news all the same.
		if gone && en.state == stateArmed {
			e.bury(slot, now)
		}
		return
	}
	moved := en.expiry != nanos(res.sent.Expiry) || compareVersion(en, res.sent.ResourceVersion) == newer
	switch {
	case en.flags&flagTerminating != 0:
		en.flags &^= flagTerminating
		e.await(slot, j, en.wake)
	case res.again > 0, res.rest && moved:
		en.attempts = 0
		e.again(slot, now, now+int64(max(res.again, retryLeast)))
	case res.rest:
		en.attempts = 0
		e.rest(slot, stateReported)
	case gone:
		e.bury(slot, now)
	case !res.deleting.IsZero():
		e.await(slot, j, nanos(res.deleting.Add(e.opts.StuckAfter)))
	case res.postponed:
		en.attempts = 0
		e.again(slot, now, now+int64(retryLeast))
	case res.result == DryRun && !moved && (en.flags&flagDryRun != 0 || e.opts.DryRun):
		en.attempts = 0
		e.rest(slot, stateReported)
	case res.result == Kept && !moved && en.flags&flagTold == 0:
		e.release(slot)
	case res.result == DryRun, res.result == Kept:
		e.again(slot, now, now+int64(retryLeast))
	default:
		if en.attempts < 255 {
			en.attempts++
		}
		if res.lost {
			en.flags |= flagUnanswered
		}
		if en.attempts >= blockedAfter {
			switch {
			case res.denied():
				e.reportBlocked(slot, res, ReasonDeleteRefused, messageRefused(res.refusal), r)
			case res.result == Conflict:
				e.reportBlocked(slot, res, ReasonConflict, messageConflict, r)
			}
		}
		most := backoffMost
		if res.result == Failed || res.result == Conflict || res.result == Throttled {
			most = backoffTrouble
		}
		wait := max(backoff(int(en.attempts), most, e.opts.jitter()), min(res.retryAfter, backoffMost))
		if (res.result == Failed || res.result == Refused) && res.retryAfter == 0 {
			en.flags |= flagParked // if a breaker is open it is woken when that closes
		}
		e.again(slot, now, now+int64(wait))
	}
}

// await has an entry wait for the end of an object that is being deleted, unless another lane does so already: who is stuck is reported once.
func (e *Engine) await(slot uint32, j *job, stuck int64) {
	if e.reportedElsewhere(&j.object) {
		e.release(slot)
		return
	}
	e.enter(slot, stateTerminating, stuck)
}

// again arms an entry for its expiry, or, where that is past, for another instant, which lies in the future.
func (e *Engine) again(slot uint32, now, retry int64) {
	en := e.index.at(slot)
	if en.expiry > now {
		e.punctual(slot)
		en.flags &^= flagParked
		e.arm(slot, en.expiry)
		return
	}
	e.arm(slot, retry)
}

// goneInOtherLanes buries what other lanes wait to do with an object that is gone: the first that is due deletes it, and
// nobody sends a second DELETE after it. One that is under way settles by itself.
func (e *Engine) goneInOtherLanes(uid types.UID, own Lane, now int64) {
	for lane := range Lane(lanes) {
		if lane == own {
			continue
		}
		if slot, ok := e.index.lookup(uid, lane); ok {
			if s := e.index.at(slot).state; s == stateArmed || s == stateReported {
				e.bury(slot, now)
			}
		}
	}
}

// deletedElsewhere buries what is tracked of an object that DeleteNow found gone.
func (e *Engine) deletedElsewhere(uid types.UID, now int64) {
	for lane := range Lane(lanes) {
		if slot, ok := e.index.lookup(uid, lane); ok && e.index.at(slot).state != stateTombstone {
			e.bury(slot, now)
		}
	}
}
