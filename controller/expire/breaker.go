package expire

import (
	"fmt"
	"time"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// limits hold deletions back: breakers and rates.
type limits struct {
	*entries
	breakers *breakers
	all      deletion.Rate
	backfill deletion.Rate
}

// admit checks rates and breakers. free is false if a rate has no room.
func (e *limits) admit(j *job, r reading) (admitted bool, wait time.Duration, free bool) {
	j.dry = j.object.DryRun || e.opts.DryRun
	j.started = r.mono
	if e.limitOf(j.trigger, j.object.Backfill, j.dry, r) != "" {
		return false, 0, false
	}
	if ok, wait := e.breakers.admit(&j.object, r.mono); !ok {
		return false, wait, true
	}
	if !j.dry {
		if j.trigger.Deletes { // Other actions reserve for each DELETE: see deletion.Due.Reserve.
			e.all.Take(r.mono)
		}
		if j.object.Backfill {
			e.backfill.Take(r.mono)
		}
	}
	return true, 0, true
}

const limitDeletions, limitBackfill = "deletions", "backfill"

// limitOf returns which rate has no room for an object now, or "". The lock is held.
func (e *limits) limitOf(t *trigger, backfill, dry bool, r reading) string {
	switch sent := !dry && !e.opts.DryRun; {
	case sent && t.Deletes && e.all.Wait(r.mono) > 0:
		return limitDeletions
	case sent && backfill && e.backfill.Wait(r.mono) > 0:
		return limitBackfill
	}
	return ""
}

// Reserve takes one deletion from the budget of MaxDeletionsPerMinute, for a DELETE that the engine
// does not send itself. ok is false where there is no room now. Else call done once, with whether
// the deletion happened, or may have happened.
func (e *limits) Reserve() (done func(happened bool), ok bool) {
	e.mu.Lock()
	defer e.unlock()
	if !e.all.Reserve(e.read().mono) {
		return nil, false
	}
	return func(happened bool) {
		e.mu.Lock()
		defer e.unlock()
		e.all.Done(e.read().mono, happened)
	}, true
}

// publishScopes publishes which scope has been paused and which scopes have been resumed.
func (e *limits) publishScopes(j *job, opened scopeKey, reason string, closed []scopeKey, now int64, r reading) {
	kind := j.kind.Kind
	if opened.class != "" {
		e.publish(opened.event(true, reason, kind))
	}
	if len(closed) > 0 {
		for _, k := range closed {
			e.publish(k.event(false, "", kind))
		}
		// Try parked entries at once.
		e.rewake(now, func(en *index.Record) bool { return en.State == index.Armed && en.Flags&index.FlagParked != 0 })
	}
}

// closeIdle closes scopes without waiting objects, for instance after their namespace was deleted:
// no success would ever close them. The lock is held.
func (e *limits) closeIdle(r reading) {
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
		e.publish(k.event(false, "", kind))
	}
}

// waitsFor reports whether a scope holds back, or will hold back, the deletion of a tracked object.
// It walks the whole index: call it for rare events only.
func (e *limits) waitsFor(k scopeKey) (found bool) {
	for c, more := 0, true; more && !found; c++ {
		more = e.index.Each(c, func(slot uint32, en *index.Record) {
			if found || en.State != index.Armed && en.State != index.InFlight || en.Flags&index.FlagLate == 0 {
				return
			}
			switch o := e.index.Entry(slot); k.class {
			case classAPIServer:
				found = true
			case classKind:
				found = scopeKind(o.Kind) == k
			case classPermission:
				found = scopePermission(&o) == k
			default:
				found = scopeSource(&o) == k
			}
		})
	}
	return found
}

// breakers pause scopes whose deletions the API server does not accept, so that a hundred thousand
// objects that cannot be deleted cost a few probes and not a hundred thousand refusals a round.
// There are four scopes:
//
//   - everything, when no answer comes or the token is refused
//   - one kind, when its DELETEs are answered with errors of the 500s, or get no answer while those
//     for other kinds do
//   - one source in one namespace for one kind, when its DELETEs are refused (422 ...)
//   - one kind in one namespace, when Curfew may not delete it there: rights may be given by
//     namespace
//
// A scope opens after several different objects failed in a row. A missing permission concerns all
// objects of its scope, so each refusal counts, of one object or several. From then on the breaker
// lets a few objects through at growing intervals. The first success closes the scope, and the
// waiting objects are tried at once. An object whose probe failed steps behind the others, so that
// an object that can never be deleted does not block the others (S3).
type breakers struct {
	scopes map[scopeKey]*scope
	open   int
}

type scopeKey struct {
	class     string
	kind      Kind
	namespace string
	source    string
}

type scope struct {
	failures int
	open     bool
	parked   int           // entries that wait for it, roughly
	interval time.Duration // between rounds of probes
	next     time.Duration // monotonic: start of the next round
	probes   int           // left in the round that began last
	asked    time.Duration // monotonic: when it last concerned an object
}

const (
	breakerThreshold = 5
	breakerMaxProbes = 50
	// breakerIdle is how long a scope concerns no object before the engine checks whether any
	// object waits for it: unless a rate holds a waiting object back, it is tried again sooner.
	breakerIdle = 2 * maxBackoff
)

// Classes of scopes, as in BreakerEvent.Class and the label class of curfew_paused_scopes.
const (
	classClock     = "clock"
	classAPIServer = "apiserver"
	classKind      = "kind"
	classObject    = index.ClassObject
	// classPermission scopes are no faults: their objects are kept, and are not overdue.
	classPermission = "permission"
	// classPause and classUnread are in the metric only: see package controller/deletion.
	classPause  = "pause"
	classUnread = "unread"
)

func scopeAll() scopeKey { return scopeKey{class: classAPIServer} }

func scopeKind(k Kind) scopeKey { return scopeKey{class: classKind, kind: k} }

func scopeSource(o *Entry) scopeKey {
	return scopeKey{class: index.SourceClass(o.Source), kind: o.Kind, namespace: o.Namespace, source: o.Source}
}

func scopePermission(o *Entry) scopeKey {
	return scopeKey{class: classPermission, kind: o.Kind, namespace: o.Namespace, source: "namespace/" + o.Namespace}
}

// String is the same for the same scope, and for no other.
func (k scopeKey) String() string {
	return fmt.Sprintf("%s/%d/%s/%s", k.class, k.kind, k.namespace, k.source)
}

// intervals bounds the interval between rounds of probes: an unreachable API server is probed
// often, a missing permission seldom.
func (k scopeKey) intervals() (first, most time.Duration) {
	switch k.class {
	case classAPIServer:
		return time.Second, 10 * time.Second
	case classPermission:
		return 5 * time.Second, 5 * time.Minute
	default:
		return 5 * time.Second, time.Minute
	}
}

// admit reports whether a DELETE of o may be sent, and if not, how long until it may be tried.
func (b *breakers) admit(o *Entry, mono time.Duration) (ok bool, wait time.Duration) {
	if b.open == 0 {
		return true, 0
	}
	keys := [...]scopeKey{scopeAll(), scopeKind(o.Kind), scopePermission(o), scopeSource(o)}
	var shut [len(keys)]*scope
	for i, k := range keys {
		s := b.scopes[k]
		if s == nil || !s.open {
			continue
		}
		s.asked = mono
		if mono >= s.next {
			s.probes = 1 + min(s.parked/100, breakerMaxProbes-1)
			s.next = mono + s.interval
			_, most := k.intervals()
			s.interval = min(2*s.interval, most)
			s.parked = 0
		}
		if s.probes == 0 {
			s.parked++
			return false, max(time.Second, s.next-mono)
		}
		shut[i] = s
	}
	for _, s := range shut {
		if s != nil {
			s.probes--
		}
	}
	return true, 0
}

// blocked returns for how long everything is paused, or 0. It saves the engine from touching every
// entry.
func (b *breakers) blocked(mono time.Duration) time.Duration {
	if s := b.scopes[scopeAll()]; b.open > 0 && s != nil && s.open && s.probes == 0 && mono < s.next {
		return s.next - mono
	}
	return 0
}

// fail counts a failure. fresh: it is this object's first failure in a row. One object that keeps
// failing opens no scope but that of a missing permission.
func (b *breakers) fail(k scopeKey, fresh bool, mono time.Duration) (opened bool) {
	s := b.scopes[k]
	if s == nil {
		s = &scope{}
		b.scopes[k] = s
	}
	s.asked = mono
	if fresh || k.class == classPermission {
		s.failures++
	}
	if s.open || s.failures < breakerThreshold {
		return false
	}
	s.open = true
	b.open++
	first, _ := k.intervals()
	s.interval, s.next, s.probes = 2*first, mono+first, 0
	return true
}

// succeed closes the scope, and reports whether it was open.
func (b *breakers) succeed(k scopeKey) (closed bool) {
	if len(b.scopes) == 0 {
		return false
	}
	s := b.scopes[k]
	if s == nil {
		return false
	}
	delete(b.scopes, k)
	if s.open {
		b.open--
	}
	return s.open
}

// shut reports whether the breaker of a scope is open.
func (b *breakers) shut(k scopeKey) bool { s := b.scopes[k]; return s != nil && s.open }

// idle returns the open scopes that have not concerned an object for long. It drops such scopes
// that are not open.
func (b *breakers) idle(mono time.Duration) (open []scopeKey) {
	for k, s := range b.scopes {
		switch {
		case mono-s.asked < breakerIdle:
		case s.open:
			open = append(open, k)
		default:
			delete(b.scopes, k)
		}
	}
	return open
}

// forget drops the scopes of one kind and returns those that were open.
func (b *breakers) forget(kind Kind) (closed []scopeKey) {
	for k := range b.scopes {
		if k.kind == kind && k.class != classAPIServer && b.succeed(k) {
			closed = append(closed, k)
		}
	}
	return closed
}

// openByClass counts open scopes for the metric.
func (b *breakers) openByClass() map[string]int {
	n := map[string]int{classAPIServer: 0, classKind: 0, classPermission: 0, classObject: 0, "namespace": 0, "policy": 0, "runtime": 0}
	for k, s := range b.scopes {
		if s.open {
			n[k.class]++
		}
	}
	return n
}

// event describes a change of a scope.
func (k scopeKey) event(open bool, reason, kind string) BreakerEvent {
	what := "everything"
	switch k.class {
	case classAPIServer:
	case classKind:
		what = "all of kind " + kind
	case classPermission:
		what = fmt.Sprintf("%s in namespace %q, which Curfew may not delete there", kind, k.namespace)
	default:
		what = fmt.Sprintf("%s of source %q", kind, k.source)
		if k.namespace != "" {
			what += fmt.Sprintf(" in namespace %q", k.namespace)
		}
	}
	message := "deletions resumed: " + what
	if open {
		message = fmt.Sprintf("deletions are paused: %s (%s)", what, reason)
	}
	return BreakerEvent{
		Class: k.class, Scope: k.String(), Kind: kind, Namespace: k.namespace, Source: k.source,
		Open: open, Reason: reason, Message: message,
	}
}
