package engine

import (
	"errors"
	"net/http"

	"curfew.dev/curfew/controller/action"
)

// troubled reports whether an answer is a reason to ask for less at a time.
func (res *attemptResult) troubled(k *KindOptions) bool {
	return res.overloaded(k) || res.result == Failed && res.Code != codeUnjudged && res.Origin != action.FromAdmission
}

// judgeScopes updates the breakers with a result.
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
	case res.held != nil, res.postponed && res.result == "", errors.Is(res.Err, ErrRulesChanged):
		return
	case res.Err != nil && res.Origin == action.FromAdmission:
		// The code is chosen by one webhook or policy, which may apply to a single namespace.
		success(scopeAll())
		success(scopeKind(o.Kind))
		fail(scopeSource(o), ReasonRefused)
	case res.result == Throttled:
		success(scopeAll())
	case res.result == Failed && res.Code == 0 && e.unheard(j, r) && j.stay.room == &e.judgements:
		fail(scopeSource(o), ReasonNotJudged) // Other sources go on.
	case res.result == Failed && res.Code == 0 && e.unheard(j, r) && j.ofNamespace(r):
		fail(scopeSource(o), ReasonUnreachable)
	case res.result == Failed && res.Code == 0 && e.unheard(j, r):
		fail(scopeKind(o.Kind), ReasonUnreachable)
	case res.result == Failed && res.Code == 0:
		fail(scopeAll(), ReasonUnreachable)
	case res.Code == http.StatusUnauthorized:
		fail(scopeAll(), ReasonRefused)
	case res.Code == codeUnjudged:
		fail(scopeSource(o), ReasonNotJudged)
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
	e.publishScopes(j, opened, reason, closed, r)
}

// publishScopes publishes which scope has been paused and which scopes have been resumed.
func (e *Engine) publishScopes(j *job, opened scopeKey, reason string, closed []scopeKey, r reading) {
	kind := j.kind.Kind
	if opened.class != "" {
		e.publish(opened.event(true, reason, kind, r.at))
	}
	if len(closed) > 0 {
		for _, k := range closed {
			e.publish(k.event(false, "", kind, r.at))
		}
		// Try parked entries at once.
		now, _ := e.guard.now(r)
		e.rewake(now, func(en *entry) bool { return en.state == stateArmed && en.flags&flagParked != 0 })
	}
}

// closeIdle closes scopes without waiting objects, for instance after their namespace was deleted:
// no success would ever close them. The lock is held.
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
		e.publish(k.event(false, "", kind, r.at))
	}
}

// waitsFor reports whether a scope holds back, or will hold back, the deletion of a tracked object.
// It walks the whole index: call it for rare events only.
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
