package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// origin tells whether a state comes from a watch or from a list.
type origin uint8

const (
	fromWatch origin = iota
	fromRelist
)

type order uint8

const (
	unordered order = iota // one of the two is not a number
	older
	same
	newer
)

// compareVersion compares a resourceVersion with the version of an entry.
func compareVersion(en *entry, version string) order {
	rv, ok := packVersion(version)
	switch {
	case !ok || en.flags&flagOddRV != 0:
		return unordered
	case rv < en.rv:
		return older
	case rv > en.rv:
		return newer
	default:
		return same
	}
}

// apply updates the index with a judgement of an object. The engine's lock is held.
func (e *Engine) apply(o *Object, now int64, from origin) {
	x := e.index
	slot, ok := e.lookup(o.Kind, o.UID)
	if !ok {
		k := e.kinds[o.Kind]
		slot = x.alloc(o.UID, k.trigger.id)
		x.set(slot, o)
		e.payloads.keep(k.trigger, o)
		en := x.at(slot)
		en.gen = k.gen
		k.tracked++
		e.arm(slot, en.expiry)
		return
	}
	en := x.at(slot)
	en.gen = e.kinds[o.Kind].gen
	cmp := compareVersion(en, o.ResourceVersion)
	switch en.state {
	case stateTombstone:
		// Events that were sent before the DELETE still come in. After KeepOut, or with a newer
		// state, the object does exist after all: a lost DELETE must not make it immortal (S3).
		if now < en.wake && cmp != newer {
			return
		}
		e.revive(slot, o)
	case stateTerminating:
		// A deletionTimestamp is never removed, so this is an old state, unless etcd was restored.
		// If a whole list shows it, judge it live.
		if from == fromWatch && cmp != newer {
			return
		}
		e.revive(slot, o)
		if from == fromRelist && cmp != newer {
			en.flags |= flagLive
			e.arm(slot, max(en.expiry, now+int64(e.opts.KeepOut)))
		}
	case stateInFlight:
		if cmp != older {
			e.write(slot, o) // the worker sees it when it is done
			en.flags |= flagUpserted
		}
	default:
		if cmp == older {
			// An old state. If a whole list shows it and the object would be due sooner, or has to
			// be acted on again, then resourceVersions may have gone backwards: judge it live
			// rather than trust either state (S3).
			at, dry := nanos(o.Expiry), en.flags&flagDryRun != 0
			if from == fromRelist && (en.state == stateArmed && at < en.wake || en.state == stateReported && (at != en.expiry || o.DryRun != dry)) {
				en.flags |= flagLive
				e.arm(slot, at)
			}
			return
		}
		e.update(slot, o)
	}
}

// update writes a newer state into a waiting entry and moves the entry to its place.
func (e *Engine) update(slot uint32, o *Object) {
	en := e.index.at(slot)
	expiry, dry, phase := en.expiry, en.flags&flagDryRun, en.phase
	e.write(slot, o)
	changed := en.expiry != expiry || en.flags&flagDryRun != dry || en.phase != phase
	switch {
	case en.state == stateReported && !changed:
	case changed || en.flags&flagLate == 0:
		e.punctual(slot)
		en.attempts = 0
		en.flags &^= flagParked | flagUnanswered
		e.arm(slot, en.expiry)
	default:
		e.index.move(slot) // keeps its backoff; Backfill may have changed
	}
}

// write is index.set that also keeps the payload and the number of tracked objects.
func (e *Engine) write(slot uint32, o *Object) {
	en := e.index.at(slot)
	if en.kind != o.Kind && tracked(en.state) {
		e.kinds[en.kind].tracked--
		e.kinds[o.Kind].tracked++
	}
	e.index.set(slot, o)
	e.payloads.keep(e.kinds[o.Kind].trigger, o)
}

// revive tracks an object again that was considered gone or terminating.
func (e *Engine) revive(slot uint32, o *Object) {
	e.write(slot, o)
	en := e.index.at(slot)
	if en.flags&flagStuck != 0 {
		e.stuck--
	}
	en.attempts = 0
	en.flags &^= flagStuck | flagTerminating | flagUnanswered | flagParked
	e.arm(slot, en.expiry)
}

// terminating is Engine.Terminating with the lock held.
func (e *Engine) terminating(o *Object, since time.Time) {
	x := e.index
	slot, ok := e.lookup(o.Kind, o.UID)
	if e.reportedElsewhere(o) && (!ok || x.at(slot).state != stateInFlight) {
		if ok {
			e.release(slot)
		}
		return
	}
	if !ok {
		slot = x.alloc(o.UID, e.kinds[o.Kind].trigger.id)
		x.set(slot, o)
		x.at(slot).state = stateTombstone // not counted as tracked, until below
	} else {
		e.countForeign(slot, o.UID, since)
		if o.Expiry.IsZero() {
			o.Expiry = time.Unix(0, x.at(slot).expiry)
		}
		if compareVersion(x.at(slot), o.ResourceVersion) != older {
			e.write(slot, o)
		}
	}
	en := x.at(slot)
	en.gen = e.kinds[en.kind].gen
	at := nanos(since.Add(e.opts.StuckAfter))
	switch {
	case en.state == stateInFlight:
		en.flags |= flagTerminating
		en.wake = at
	case en.state == stateTerminating && en.flags&flagStuck != 0:
	default:
		e.enter(slot, stateTerminating, at)
	}
}

// countForeign counts a due object that another client deletes. It does not count an object that
// Curfew may have deleted: a request is under way, was accepted, or got no answer.
func (e *Engine) countForeign(slot uint32, uid types.UID, since time.Time) {
	en := e.index.at(slot)
	t := e.triggers[en.trigger]
	if !t.Deletes || en.expiry > nanos(since) || en.flags&flagUnanswered != 0 {
		return
	}
	for _, of := range e.index.entriesOf(uid) {
		if s := e.index.at(of).state; s != stateArmed && s != stateReported {
			return
		}
	}
	kind := e.kinds[en.kind].opts.GroupKind()
	e.metrics.byOthers.WithLabelValues(t.Name, kind.Group, kind.Kind).Inc()
}

// reportedElsewhere reports whether another trigger already waits for the object's end: a stuck
// object is reported once.
func (e *Engine) reportedElsewhere(o *Object) bool {
	own := e.kinds[o.Kind].trigger.id
	return slices.ContainsFunc(e.index.entriesOf(o.UID), func(slot uint32) bool {
		en := e.index.at(slot)
		return en.trigger != own && en.state == stateTerminating
	})
}

// trackedElsewhere reports whether the object of a job has an entry other than the job's own.
func (e *Engine) trackedElsewhere(j *job) bool {
	e.mu.Lock()
	defer e.unlock()
	return slices.ContainsFunc(e.index.entriesOf(j.object.UID), func(slot uint32) bool {
		en := e.index.at(slot)
		return (j.batch != nil || en.trigger != j.trigger.id) && en.state != stateTombstone
	})
}
