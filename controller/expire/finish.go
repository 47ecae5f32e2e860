package expire

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

const (
	// backoffFirst and maxBackoff bound how long an entry waits for its next attempt. There is no
	// last attempt.
	backoffFirst = minRetry
	maxBackoff   = 5 * time.Minute
	// backoffTrouble bounds it if the object is not the cause: no answer, or an error of the 500s.
	backoffTrouble = 30 * time.Second
	// maxPause bounds for how long one Retry-After pauses everything.
	maxPause = 30 * time.Second
)

// backoff is the wait after the nth failure in a row, n from 1: doubling, at least a second, up to
// 30% longer by chance so that what failed together does not come back together.
func backoff(n int, most time.Duration, chance float64) time.Duration {
	d := most
	if n < 16 {
		d = min(most, backoffFirst<<(n-1))
	}
	return d + time.Duration(chance*0.3*float64(d))
}

// finish records the result of a job. The lock is held. stopped: the engine is stopping, so a
// failure is not reported.
func (e *Engine) finish(j *job, res attemptResult, r reading, stopped bool) Outcome {
	e.heard(j, &res, r)
	e.setApart(r)
	now, _ := e.checkClock(r)
	e.observe(j, &res, r)
	out := Outcome{
		Object: res.sent, Trigger: j.trigger.label(res.sent.Phase), Result: res.reported, Deleted: res.Deleted,
		At: time.Unix(0, now).UTC(), Err: res.Err,
	}
	if res.reported == Deleted || res.reported == Unconfirmed {
		out.Lateness = max(0, out.At.Sub(res.sent.Expiry))
	}
	e.judgeScopes(j, &res, now, r)
	if j.work != nil {
		e.finishUntracked(j, &res, &out, now)
	} else {
		e.finishEntry(j, &res, now, r)
	}
	if (!stopped || out.Result.Final()) && out.Result != "" && res.held == nil {
		e.record(j, &res, out)
	}
	return out
}

// heard ends a job and notes how quick its answer was. The lock is held.
func (e *Engine) heard(j *job, res *attemptResult, r reading) {
	switch {
	case res.reported == Throttled && res.Origin != deletion.FromAdmission:
		e.throttle(j, res, r)
	case res.Code == 0 && res.Err != nil:
		e.took(j, max(r.mono-j.started, slowAfter))
	default:
		if res.Code > 0 || res.Outcome == deletion.Done || res.Outcome == deletion.Again { // A live read alone proves nothing.
			j.traffic.refused = 0
			if j.work == nil {
				e.pause.admitted(j.started)
			}
		}
		if e.took(j, r.mono-j.started) {
			j.traffic.quick, j.traffic.quickIn = r.mono, j.object.Namespace
		}
	}
	e.end(j)
}

// throttle handles a 429. If the API server itself refuses several requests in a row, everything
// pauses, but not for a kind whose breaker shows that others are answered. The object waits in any
// case: see retry. The answer to the account of a run is its own affair: a tenant can make the API
// server send it. The lock is held.
func (e *Engine) throttle(j *job, res *attemptResult, r reading) {
	if j.work != nil {
		return
	}
	if res.overloaded(j.kind) && !e.breakers.shut(scopeKind(j.object.Kind)) {
		e.pause.refused(r, min(maxPause, res.After))
	}
	if j.traffic.refused == 0 {
		j.traffic.refused = r.mono
	}
}

// observe updates the concurrency and the rates with a result.
func (e *Engine) observe(j *job, res *attemptResult, r reading) {
	// Latency and failures that a kind causes for its own requests prove nothing about the API
	// server.
	troubled := res.troubled(j.kind)
	own := e.alone(j, r) || res.Code == 0 && res.Err != nil && e.unheard(j, r) ||
		res.reported == Failed && e.breakers.shut(scopeKind(j.object.Kind)) ||
		res.reported == Throttled && (!troubled || j.work != nil || e.breakers.shut(scopeKind(j.object.Kind)))
	if !own && (res.Latency > 0 || troubled && res.Code > 0) {
		e.conc.Observe(deletion.Sample{At: r.mono, Latency: res.Latency, InFlight: e.inFlight + 1, Refused: troubled})
	}
	if j.dry {
		return
	}
	// A request without an answer may have been carried out.
	happened := res.reported == Deleted || res.lost
	if j.trigger.Deletes {
		e.all.Done(r.mono, happened)
	}
	if j.object.Backfill {
		e.backfill.Done(r.mono, happened)
	}
}

// finishEntry puts the entry of a job into its next state.
func (e *Engine) finishEntry(j *job, res *attemptResult, now int64, r reading) {
	gone := res.deleting.IsZero() && (res.reported == Deleted || res.reported == AlreadyGone || res.reported == Unconfirmed)
	if gone {
		e.goneForOthers(j.object.UID, j.trigger, now)
	}
	slot, ok := e.lookup(j.object.Kind, j.object.UID)
	if !ok {
		return // removed meanwhile
	}
	en := e.index.At(slot)
	if en.State != index.InFlight {
		// Removed and tracked again meanwhile, or terminating. The object is gone all the same.
		if gone && en.State == index.Armed {
			e.bury(slot, now)
		}
		return
	}
	moved := en.Expiry != index.Nanos(res.sent.Expiry) || en.Compare(res.sent.ResourceVersion) == index.Newer
	switch {
	case en.Flags&index.FlagTerminating != 0:
		en.Flags &^= index.FlagTerminating
		e.await(slot, j, en.Wake)
	case res.again, res.rest && moved:
		en.Attempts = 0
		e.retryAt(slot, now, now+int64(max(res.After, minRetry)))
	case res.rest:
		en.Attempts = 0
		e.rest(slot, index.Reported)
	case gone:
		e.bury(slot, now)
	case !res.deleting.IsZero():
		e.await(slot, j, index.Nanos(res.deleting.Add(e.opts.StuckAfter)))
	case res.postponed:
		en.Attempts = 0
		e.retryAt(slot, now, now+int64(minRetry))
	case res.reported == DryRun && !moved && (en.Flags&index.FlagDryRun != 0 || e.opts.DryRun):
		en.Attempts = 0
		e.rest(slot, index.Reported)
	case res.reported == Kept && !moved && en.Flags&index.FlagUpserted == 0:
		e.release(slot)
	case res.reported == DryRun, res.reported == Kept:
		e.retryAt(slot, now, now+int64(minRetry))
	default:
		e.retry(slot, res, now, r)
	}
}

// retry makes an entry wait for its next attempt after a failure.
func (e *Engine) retry(slot uint32, res *attemptResult, now int64, r reading) {
	en := e.index.At(slot)
	if en.Attempts < 255 {
		en.Attempts++
	}
	if res.lost {
		en.Flags |= index.FlagUnanswered
	}
	if en.Attempts >= blockedAfter {
		switch {
		case res.refusal != "" && res.Denied():
			reason, message := refused(e.triggers[en.Trigger].Deletes, res.refusal)
			e.reportBlocked(slot, res, reason, message, r)
		case res.reported == Conflict:
			e.reportBlocked(slot, res, ReasonConflict, messageConflict, r)
		}
	}
	most := maxBackoff
	if res.reported == Failed || res.reported == Conflict || res.reported == Throttled {
		most = backoffTrouble
	}
	after := min(res.After, maxBackoff)
	if res.overloaded(e.kinds[en.Kind].opts) { // This object is no reason: see retryAfter.
		after, most = 0, backoffFirst
	}
	wait := max(backoff(int(en.Attempts), most, e.opts.jitter()), after)
	if (res.reported == Failed || res.reported == Refused) && res.After == 0 {
		en.Flags |= index.FlagParked // if a breaker is open it is woken when that closes
	}
	e.retryAt(slot, now, now+int64(wait))
}

// await makes an entry wait until a terminating object is gone, unless another trigger's entry does
// so already: a stuck object is reported once.
func (e *Engine) await(slot uint32, j *job, stuck int64) {
	if e.reportedElsewhere(&j.object) {
		e.release(slot)
		return
	}
	e.enter(slot, index.Terminating, stuck)
}

// retryAt arms an entry for its expiry, or for the given future instant if the expiry is past.
func (e *Engine) retryAt(slot uint32, now, retry int64) {
	en := e.index.At(slot)
	if en.Expiry > now {
		e.punctual(slot)
		en.Flags &^= index.FlagParked
		e.enter(slot, index.Armed, en.Expiry)
		return
	}
	e.enter(slot, index.Armed, retry)
}

// goneForOthers buries the waiting entries that other triggers have for an object that is gone, so
// that the engine sends no second DELETE. An attempt that is under way finishes by itself.
func (e *Engine) goneForOthers(uid types.UID, own *trigger, now int64) {
	for _, slot := range e.index.All(uid) {
		if en := e.index.At(slot); en.Trigger != own.id && (en.State == index.Armed || en.State == index.Reported) {
			e.bury(slot, now)
		}
	}
}

// judgeScopes updates the breakers with a result.
func (e *Engine) judgeScopes(j *job, res *attemptResult, now int64, r reading) {
	b, o := e.breakers, &j.object
	fresh := j.attempt == 0
	closed, opened := make([]scopeKey, 0, 4), scopeKey{}
	var reason string
	success := func(scopes ...scopeKey) {
		for _, k := range scopes {
			if b.succeed(k) {
				closed = append(closed, k)
			}
		}
	}
	fail := func(k scopeKey, why string) {
		if b.fail(k, fresh, r.mono) {
			opened, reason = k, why
		}
	}
	switch {
	case res.held != nil, res.postponed && res.reported == "", errors.Is(res.Err, ErrRulesChanged):
		return
	case res.Err != nil && res.Origin == deletion.FromAdmission:
		// The code is chosen by one webhook or policy, which may apply to a single namespace.
		success(scopeAll(), scopeKind(o.Kind), scopePermission(o))
		fail(scopeSource(o), ReasonRefused)
	case res.reported == Throttled:
		success(scopeAll())
		if j.work == nil && (!res.overloaded(j.kind) || e.othersQuick(j.traffic, j.traffic.refused)) {
			fail(scopeKind(o.Kind), ReasonServerErrors)
		}
	case res.reported == Failed && res.Code == 0 && e.unheard(j, r) && res.unread:
		fail(scopeSource(o), ReasonNotJudged) // Other sources go on.
	case res.reported == Failed && res.Code == 0 && e.unheard(j, r) && j.ofNamespace(r):
		fail(scopeSource(o), ReasonUnreachable)
	case res.reported == Failed && res.Code == 0 && e.unheard(j, r):
		fail(scopeKind(o.Kind), ReasonUnreachable)
	case res.reported == Failed && res.Code == 0:
		fail(scopeAll(), ReasonUnreachable)
	case res.Code == http.StatusUnauthorized:
		fail(scopeAll(), ReasonRefused)
	case res.Code == codeUnjudged:
		fail(scopeSource(o), ReasonNotJudged)
	case res.reported == Failed:
		success(scopeAll())
		fail(scopeKind(o.Kind), ReasonServerErrors)
	case res.reported == Refused && res.Unpermitted() && j.work == nil && o.Namespace != "": // Work has an account of its own.
		success(scopeAll(), scopeKind(o.Kind))
		fail(scopePermission(o), ReasonForbidden)
	case res.reported == Refused:
		success(scopeAll(), scopeKind(o.Kind))
		fail(scopeSource(o), ReasonRefused)
	case res.reported == Conflict:
		success(scopeAll(), scopeKind(o.Kind), scopePermission(o))
	default:
		success(scopeAll(), scopeKind(o.Kind), scopePermission(o), scopeSource(o))
	}
	e.publishScopes(j, opened, reason, closed, now, r)
}

// blockage is the reason why an object is blocked, and when that was reported last, in monotonic
// time.
type blockage struct {
	reason   string
	reported time.Duration
}

const messageConflict = "it changes before the API server answers a request for it: " +

	"look for a slow admission webhook, and for what keeps writing the object"

// maxRefusal bounds how much of a refusal is quoted.
const maxRefusal = 512

// refused returns the reason and the message of a blockage, in the words of the refusal.
func refused(deletes bool, refusal string) (reason, message string) {
	if len(refusal) > maxRefusal {
		refusal = strings.ToValidUTF8(refusal[:maxRefusal], "") + "…"
	}
	if !deletes {
		return ReasonStopRefused, "it cannot be stopped: " + refusal
	}
	return ReasonDeleteRefused, "the API server refuses to delete it: " + refusal
}

// reportEvery is how long until a blockage that lasts is reported again. The API server keeps an
// Event for an hour.
const reportEvery = 30 * time.Minute

// blockedAfter is how many attempts in a row fail before an object counts as blocked. Each follows
// it through maxRounds changes.
const blockedAfter = 3

// reportBlocked reports why a due object cannot be deleted, once and every half hour. The lock is
// held.
func (e *Engine) reportBlocked(slot uint32, res *attemptResult, reason, message string, r reading) {
	was, known := e.blocked[slot]
	if known && was.reason == reason && r.mono-was.reported < reportEvery {
		return
	}
	e.blocked[slot] = blockage{reason, r.mono}
	o, kind, err := e.index.Entry(slot), e.kinds[e.index.At(slot).Kind].opts, res.Err
	e.note(func() {
		e.opts.Log.Info("object cannot be deleted yet", "kind", kind.Kind, "object", nameOf(&o), "uid", o.UID, "expiry", o.Expiry,
			"reason", reason, "because", message, "err", err)
		if e.opts.OnBlocked != nil {
			e.opts.OnBlocked(BlockedObject{Object: o, Kind: *kind, Reason: reason, Message: message})
		}
	})
}
