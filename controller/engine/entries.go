package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/engine/index"
)

// origin tells whether a state comes from a watch or from a list.
type origin uint8

const (
	fromWatch origin = iota
	fromRelist
)

// apply updates the index with a judgement of an object. The engine's lock is held.
func (e *Engine) apply(o *Object, now int64, from origin) {
	x := e.index
	slot, ok := e.lookup(o.Kind, o.UID)
	if !ok {
		k := e.kinds[o.Kind]
		slot = x.Add(o.UID, k.trigger.id)
		x.Set(slot, o)
		e.payloads.keep(k.trigger, o)
		en := x.At(slot)
		en.Gen = k.gen
		k.tracked++
		e.arm(slot, en.Expiry)
		return
	}
	en := x.At(slot)
	en.Gen = e.kinds[o.Kind].gen
	cmp := en.Compare(o.ResourceVersion)
	switch en.State {
	case index.Tombstone:
		// Events that were sent before the DELETE still come in. After KeepOut, or with a newer
		// state, the object does exist after all: a lost DELETE must not make it immortal (S3).
		if now < en.Wake && cmp != index.Newer {
			return
		}
		e.revive(slot, o)
	case index.Terminating:
		// A deletionTimestamp is never removed, so this is an old state, unless etcd was restored.
		// If a whole list shows it, judge it live.
		if from == fromWatch && cmp != index.Newer {
			return
		}
		e.revive(slot, o)
		if from == fromRelist && cmp != index.Newer {
			en.Flags |= index.FlagLive
			e.arm(slot, max(en.Expiry, now+int64(e.opts.KeepOut)))
		}
	case index.InFlight:
		if cmp != index.Older {
			e.write(slot, o) // the worker sees it when it is done
			en.Flags |= index.FlagUpserted
		}
	default:
		if cmp == index.Older {
			// An old state. If a whole list shows it and the object would be due sooner, or has to
			// be acted on again, then resourceVersions may have gone backwards: judge it live
			// rather than trust either state (S3).
			at, dry := index.Nanos(o.Expiry), en.Flags&index.FlagDryRun != 0
			if from == fromRelist && (en.State == index.Armed && at < en.Wake || en.State == index.Reported && (at != en.Expiry || o.DryRun != dry)) {
				en.Flags |= index.FlagLive
				e.arm(slot, at)
			}
			return
		}
		e.update(slot, o)
	}
}

// update writes a newer state into a waiting entry and moves the entry to its place.
func (e *Engine) update(slot uint32, o *Object) {
	en := e.index.At(slot)
	expiry, dry, phase := en.Expiry, en.Flags&index.FlagDryRun, en.Phase
	e.write(slot, o)
	changed := en.Expiry != expiry || en.Flags&index.FlagDryRun != dry || en.Phase != phase
	switch {
	case en.State == index.Reported && !changed:
	case changed || en.Flags&index.FlagLate == 0:
		e.punctual(slot)
		en.Attempts = 0
		en.Flags &^= index.FlagParked | index.FlagUnanswered
		e.arm(slot, en.Expiry)
	default:
		e.index.Move(slot) // keeps its backoff; Backfill may have changed
	}
}

// write is index.set that also keeps the payload and the number of tracked objects.
func (e *Engine) write(slot uint32, o *Object) {
	en := e.index.At(slot)
	if en.Kind != o.Kind && tracked(en.State) {
		e.kinds[en.Kind].tracked--
		e.kinds[o.Kind].tracked++
	}
	e.index.Set(slot, o)
	e.payloads.keep(e.kinds[o.Kind].trigger, o)
}

// revive tracks an object again that was considered gone or terminating.
func (e *Engine) revive(slot uint32, o *Object) {
	e.write(slot, o)
	en := e.index.At(slot)
	if en.Flags&index.FlagStuck != 0 {
		e.stuck--
	}
	en.Attempts = 0
	en.Flags &^= index.FlagStuck | index.FlagTerminating | index.FlagUnanswered | index.FlagParked
	e.arm(slot, en.Expiry)
}

// terminating is Engine.Terminating with the lock held.
func (e *Engine) terminating(o *Object, since time.Time) {
	x := e.index
	slot, ok := e.lookup(o.Kind, o.UID)
	if e.reportedElsewhere(o) && (!ok || x.At(slot).State != index.InFlight) {
		if ok {
			e.release(slot)
		}
		return
	}
	if !ok {
		slot = x.Add(o.UID, e.kinds[o.Kind].trigger.id)
		x.Set(slot, o)
		x.At(slot).State = index.Tombstone // not counted as tracked, until below
	} else {
		e.countForeign(slot, o.UID, since)
		if o.Expiry.IsZero() {
			o.Expiry = time.Unix(0, x.At(slot).Expiry)
		}
		if x.At(slot).Compare(o.ResourceVersion) != index.Older {
			e.write(slot, o)
		}
	}
	en := x.At(slot)
	en.Gen = e.kinds[en.Kind].gen
	at := index.Nanos(since.Add(e.opts.StuckAfter))
	switch {
	case en.State == index.InFlight:
		en.Flags |= index.FlagTerminating
		en.Wake = at
	case en.State == index.Terminating && en.Flags&index.FlagStuck != 0:
	default:
		e.enter(slot, index.Terminating, at)
	}
}

// countForeign counts a due object that another client deletes. It does not count an object that
// Curfew may have deleted: a request is under way, was accepted, or got no answer.
func (e *Engine) countForeign(slot uint32, uid types.UID, since time.Time) {
	en := e.index.At(slot)
	t := e.triggers[en.Trigger]
	if !t.Deletes || en.Expiry > index.Nanos(since) || en.Flags&index.FlagUnanswered != 0 {
		return
	}
	for _, of := range e.index.All(uid) {
		if s := e.index.At(of).State; s != index.Armed && s != index.Reported {
			return
		}
	}
	kind := e.kinds[en.Kind].opts.GroupKind()
	e.metrics.byOthers.WithLabelValues(t.Name, kind.Group, kind.Kind).Inc()
}

// reportedElsewhere reports whether another trigger already waits for the object's end: a stuck
// object is reported once.
func (e *Engine) reportedElsewhere(o *Object) bool {
	own := e.kinds[o.Kind].trigger.id
	return slices.ContainsFunc(e.index.All(o.UID), func(slot uint32) bool {
		en := e.index.At(slot)
		return en.Trigger != own && en.State == index.Terminating
	})
}

// trackedElsewhere reports whether the object of a job has an entry other than the job's own.
func (e *Engine) trackedElsewhere(j *job) bool {
	e.mu.Lock()
	defer e.unlock()
	return slices.ContainsFunc(e.index.All(j.object.UID), func(slot uint32) bool {
		en := e.index.At(slot)
		return (j.batch != nil || en.Trigger != j.trigger.id) && en.State != index.Tombstone
	})
}

// arm makes an entry wait until an instant.
func (e *Engine) arm(slot uint32, wake int64) { e.enter(slot, index.Armed, wake) }

// enter puts an entry into a state in which it waits in a heap.
func (e *Engine) enter(slot uint32, s index.State, wake int64) {
	e.to(slot, s)
	en := e.index.At(slot)
	en.Wake = wake
	e.index.Move(slot)
	if wake < e.sleeping {
		e.sleeping = wake
		e.wakeUp()
	}
}

// rest puts an entry into a state in which it waits in no heap.
func (e *Engine) rest(slot uint32, s index.State) {
	e.index.Pull(slot)
	e.to(slot, s)
}

func tracked(s index.State) bool {
	return s == index.Armed || s == index.InFlight || s == index.Reported
}

// to changes the state and updates the counters.
func (e *Engine) to(slot uint32, s index.State) {
	en := e.index.At(slot)
	if was, is := tracked(en.State), tracked(s); was != is {
		if is {
			e.kinds[en.Kind].tracked++
		} else {
			e.kinds[en.Kind].tracked--
		}
	}
	en.State = s
	if s != index.Armed && s != index.InFlight {
		e.punctual(slot)
	}
}

// overdue marks an entry whose time has come.
func (e *Engine) overdue(slot uint32) {
	if en := e.index.At(slot); en.Flags&index.FlagLate == 0 {
		en.Flags |= index.FlagLate
		e.late++
	}
}

// punctual is the reverse of overdue.
func (e *Engine) punctual(slot uint32) {
	delete(e.blocked, slot)
	if en := e.index.At(slot); en.Flags&index.FlagLate != 0 {
		en.Flags &^= index.FlagLate
		e.late--
	}
}

// bury turns an entry into a tombstone. The object is gone, so its name is dropped.
func (e *Engine) bury(slot uint32, now int64) {
	en := e.index.At(slot)
	if en.Flags&index.FlagStuck != 0 {
		e.stuck--
		en.Flags &^= index.FlagStuck
	}
	en.Name = ""
	e.dropPayload(slot)
	e.enter(slot, index.Tombstone, now+int64(e.opts.KeepOut))
}

// release removes an entry and updates the counters.
func (e *Engine) release(slot uint32) {
	en := e.index.At(slot)
	e.punctual(slot)
	if tracked(en.State) {
		e.kinds[en.Kind].tracked--
	}
	if en.Flags&index.FlagStuck != 0 {
		e.stuck--
	}
	e.dropPayload(slot)
	e.index.Release(slot)
}

func (e *Engine) dropPayload(slot uint32) {
	if t := e.triggers[e.index.At(slot).Trigger]; t.Payload {
		e.payloads.drop(t, e.index.UID(slot))
	}
}

// rewake moves the wake time of waiting entries forward to an instant. It walks the whole index:
// call it for rare events only.
func (e *Engine) rewake(at int64, which func(en *index.Entry) bool) {
	for c := 0; e.index.Each(c, func(slot uint32, en *index.Entry) {
		if en.Waits() && en.Wake > at && which(en) {
			en.Flags &^= index.FlagParked
			en.Wake = at
			e.index.Move(slot)
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
	limit, numeric := index.PackVersion(resourceVersion)
	return r.engine.sweep(r.kind, func(en *index.Entry) bool {
		return en.Gen != r.gen && (!numeric || !en.NewerThan(limit))
	})
}

// sweep drops entries of a kind, chunk by chunk, so that deletions go on in between.
func (e *Engine) sweep(k Kind, which func(en *index.Entry) bool) (dropped int) {
	for c, more := 0, true; more; c++ {
		e.mu.Lock()
		more = e.index.Each(c, func(slot uint32, en *index.Entry) {
			if en.Kind == k && which(en) {
				if tracked(en.State) {
					dropped++
				}
				e.release(slot)
			}
		})
		e.unlock()
	}
	return dropped
}
