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

// arm makes an entry wait until an instant.
func (e *Engine) arm(slot uint32, wake int64) { e.enter(slot, stateArmed, wake) }

// enter puts an entry into a state in which it waits in a heap.
func (e *Engine) enter(slot uint32, s state, wake int64) {
	e.to(slot, s)
	en := e.index.at(slot)
	en.wake = wake
	e.index.move(slot)
	if wake < e.sleeping {
		e.sleeping = wake
		e.wakeUp()
	}
}

// rest puts an entry into a state in which it waits in no heap.
func (e *Engine) rest(slot uint32, s state) {
	e.index.pull(slot)
	e.to(slot, s)
}

func tracked(s state) bool { return s == stateArmed || s == stateInFlight || s == stateReported }

// to changes the state and updates the counters.
func (e *Engine) to(slot uint32, s state) {
	en := e.index.at(slot)
	if was, is := tracked(en.state), tracked(s); was != is {
		if is {
			e.kinds[en.kind].tracked++
		} else {
			e.kinds[en.kind].tracked--
		}
	}
	en.state = s
	if s != stateArmed && s != stateInFlight {
		e.punctual(slot)
	}
}

// overdue marks an entry whose time has come.
func (e *Engine) overdue(slot uint32) {
	if en := e.index.at(slot); en.flags&flagLate == 0 {
		en.flags |= flagLate
		e.late++
	}
}

// punctual is the reverse of overdue.
func (e *Engine) punctual(slot uint32) {
	delete(e.blocked, slot)
	if en := e.index.at(slot); en.flags&flagLate != 0 {
		en.flags &^= flagLate
		e.late--
	}
}

// bury turns an entry into a tombstone. The object is gone, so its name is dropped.
func (e *Engine) bury(slot uint32, now int64) {
	en := e.index.at(slot)
	if en.flags&flagStuck != 0 {
		e.stuck--
		en.flags &^= flagStuck
	}
	en.name = ""
	e.dropPayload(slot)
	e.enter(slot, stateTombstone, now+int64(e.opts.KeepOut))
}

// release removes an entry and updates the counters.
func (e *Engine) release(slot uint32) {
	en := e.index.at(slot)
	e.punctual(slot)
	if tracked(en.state) {
		e.kinds[en.kind].tracked--
	}
	if en.flags&flagStuck != 0 {
		e.stuck--
	}
	e.dropPayload(slot)
	e.index.release(slot)
}

func (e *Engine) dropPayload(slot uint32) {
	if t := e.triggers[e.index.at(slot).trigger]; t.Payload {
		e.payloads.drop(t, e.index.uid(slot))
	}
}

// rewake moves the wake time of waiting entries forward to an instant. It walks the whole index:
// call it for rare events only.
func (e *Engine) rewake(at int64, which func(en *entry) bool) {
	for c := 0; e.index.each(c, func(slot uint32, en *entry) {
		if en.pos >= 0 && en.wake > at && which(en) {
			en.flags &^= flagParked
			en.wake = at
			e.index.move(slot)
		}
	}); c++ {
	}
	e.wakeUp()
}

// wakeUp wakes the dispatcher.
func (e *Engine) wakeUp() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// Relist is one full list of a kind, page by page. Objects that it does not show are gone. It needs
// no memory: entries carry the generation in which they were last seen.
//
// A kind with several lists (by phase, by label) passes all of them to one Relist. A Relist without
// End drops nothing, and does not affect the next one. A kind has one Relist at a time.
type Relist struct {
	engine *Engine
	kind   Kind
	gen    uint8
}

// BeginRelist starts a list of a kind. Watches may go on meanwhile: objects that they show count as
// seen.
func (e *Engine) BeginRelist(k Kind) *Relist {
	e.mu.Lock()
	defer e.unlock()
	e.kinds[k].gen++
	return &Relist{engine: e, kind: k, gen: e.kinds[k].gen}
}

// Upsert is Engine.Upsert for an object in the list.
func (r *Relist) Upsert(o Object) { r.engine.upsert(o, fromRelist) }

// Terminating is Engine.Terminating for an object in the list.
func (r *Relist) Terminating(o Object, since time.Time) { r.engine.Terminating(o, since) }

// Cancel is Engine.Cancel for an object in the list that has no expiry.
func (r *Relist) Cancel(uid types.UID, resourceVersion string) {
	r.engine.Cancel(r.kind, uid, resourceVersion)
}

// End drops the objects that were not seen since BeginRelist and returns their number.
// resourceVersion is the version of the list's first page, or the lowest of several lists: newer
// entries are kept, since a list may come from a cache that lags behind the watch (S3). If it is
// not a number, End drops all unseen objects. Call it only after every page.
func (r *Relist) End(resourceVersion string) (dropped int) {
	limit, numeric := packVersion(resourceVersion)
	return r.engine.sweep(r.kind, func(en *entry) bool {
		return en.gen != r.gen && (!numeric || en.flags&flagOddRV != 0 || en.rv <= limit)
	})
}

// sweep drops entries of a kind, chunk by chunk, so that deletions go on in between.
func (e *Engine) sweep(k Kind, which func(en *entry) bool) (dropped int) {
	for c, more := 0, true; more; c++ {
		e.mu.Lock()
		more = e.index.each(c, func(slot uint32, en *entry) {
			if en.kind == k && which(en) {
				if tracked(en.state) {
					dropped++
				}
				e.release(slot)
			}
		})
		e.unlock()
	}
	return dropped
}
