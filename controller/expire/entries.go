package expire

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/expire/index"
)

// entries are the tracked objects. A method needs the lock unless it takes the lock itself.
type entries struct {
	*base
	triggers []*trigger
	index    *index.Index
	payloads payloads
	kinds    []*kindState        // by Kind; 0 is none
	late     int                 // entries with index.FlagLate
	stuck    int                 // entries with index.FlagStuck
	blocked  map[uint32]blockage // by slot: due objects that were reported as blocked
	byOthers *prometheus.CounterVec
	kick     chan struct{}
	sleeping int64 // the dispatcher sleeps until then; an earlier instant must wake it
}

type kindState struct {
	opts     *KindOptions // never written to once it is here
	trigger  *trigger
	traffic  *traffic
	gen      uint8
	enqueued prometheus.Counter // curfew_objects_enqueued_total
	tracked  int
	last     lastChanges
	held     bool // see Engine.Hold
	// forgotten: no feed uses the handle, so another scope of the kind may get it.
	forgotten bool
}

// origin tells whether a state comes from a watch or from a list.
type origin uint8

const (
	fromWatch origin = iota
	fromRelist
)

// Upsert tracks an object, or postpones or advances the entry of its UID for the kind's trigger. A
// state that is older than the tracked one changes nothing. An object that was just deleted stays
// out for keepOut, unless its resourceVersion is newer. For objects that carry a
// deletionTimestamp call Terminating instead.
func (e *entries) Upsert(o Entry) { e.upsert(o, fromWatch) }

func (e *entries) upsert(o Entry, from origin) {
	if o.Expiry.IsZero() {
		// An object without an expiry is kept (S6).
		e.Cancel(o.Kind, o.UID, o.ResourceVersion, o.Epoch)
		return
	}
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	if e.valid(&o) {
		e.apply(&o, r.wall, from)
	}
}

// apply updates the index with a judgement of an object.
func (e *entries) apply(o *Entry, now int64, from origin) {
	x := e.index
	slot, ok := e.lookup(o.Kind, o.UID)
	if !ok {
		k := e.kinds[o.Kind]
		slot = x.Add(o.UID, k.trigger.id)
		x.Set(slot, o)
		e.payloads.keep(k.trigger, o)
		en := x.At(slot)
		en.Gen, k.tracked = k.gen, k.tracked+1
		k.enqueued.Inc()
		e.enter(slot, index.Armed, en.Expiry)
		return
	}
	en := x.At(slot)
	en.Gen = e.kinds[o.Kind].gen
	cmp := en.Compare(o.ResourceVersion)
	if cmp == index.Same && en.JudgedAfter(o.Epoch) && tracked(en.State) {
		return // A judgement by older rules, which another goroutine has overtaken (S3).
	}
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
			e.enter(slot, index.Armed, max(en.Expiry, now+int64(keepOut)))
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
			nanos, dry := index.Nanos(o.Expiry), en.Flags&index.FlagDryRun != 0
			again := en.State == index.Armed && nanos < en.Wake || en.State == index.Reported && (nanos != en.Expiry || o.DryRun != dry)
			if from == fromRelist && again {
				en.Flags |= index.FlagLive
				e.enter(slot, index.Armed, nanos)
			}
			return
		}
		e.update(slot, o)
	}
}

// enter puts an entry into a state in which it waits in a heap.
func (e *entries) enter(slot uint32, s index.State, wake int64) {
	e.to(slot, s)
	en := e.index.At(slot)
	en.Wake = wake
	e.index.Move(slot)
	if wake < e.sleeping {
		e.sleeping = wake
		e.wakeUp()
	}
}

// wakeUp wakes the dispatcher.
func (e *entries) wakeUp() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// update writes a newer state into a waiting entry and moves the entry to its place.
func (e *entries) update(slot uint32, o *Entry) {
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
		e.enter(slot, index.Armed, en.Expiry)
	default:
		e.index.Move(slot) // keeps its backoff; Backfill may have changed
	}
}

// write is index.set that also keeps the payload and the number of tracked objects.
func (e *entries) write(slot uint32, o *Entry) {
	en := e.index.At(slot)
	if en.Kind != o.Kind && tracked(en.State) {
		e.kinds[en.Kind].tracked--
		e.kinds[o.Kind].tracked++
	}
	e.index.Set(slot, o)
	e.payloads.keep(e.kinds[o.Kind].trigger, o)
}

// revive tracks an object again that was considered gone or terminating.
func (e *entries) revive(slot uint32, o *Entry) {
	e.write(slot, o)
	en := e.index.At(slot)
	if en.Flags&index.FlagStuck != 0 {
		e.stuck--
	}
	en.Attempts = 0
	en.Flags &^= index.FlagStuck | index.FlagTerminating | index.FlagUnanswered | index.FlagParked
	e.enter(slot, index.Armed, en.Expiry)
}

// Remove drops the entry of the UID: the watch reported that the object is gone.
func (e *entries) Remove(k Kind, uid types.UID) {
	e.mu.Lock()
	defer e.unlock()
	if slot, ok := e.lookup(k, uid); ok && e.index.At(slot).Kind == k {
		e.release(slot)
	}
}

// Cancel drops the entry of the UID, because in the state of the given resourceVersion the object
// exists and has no expiry, judged in the given epoch. It changes nothing if a newer state or a
// newer judgement is tracked, or if the object is being deleted.
func (e *entries) Cancel(k Kind, uid types.UID, resourceVersion string, epoch uint64) {
	e.mu.Lock()
	defer e.unlock()
	slot, ok := e.lookup(k, uid)
	if !ok {
		return
	}
	en := e.index.At(slot)
	if en.Kind != k {
		return
	}
	en.Gen = e.kinds[k].gen
	switch en.State {
	case index.Tombstone, index.Terminating:
	default:
		if cmp := en.Compare(resourceVersion); cmp != index.Older && (cmp != index.Same || !en.JudgedAfter(epoch)) {
			e.release(slot)
		}
	}
}

// Terminating notes that an object carries a deletionTimestamp (since), from Curfew or from another
// client. The engine does not delete it again. It reports the object as stuck after
// Options.StuckAfter, until Remove. Entry.Expiry may be zero.
func (e *entries) Terminating(o Entry, since time.Time) {
	e.mu.Lock()
	defer e.unlock()
	if !e.valid(&o) {
		return
	}
	x := e.index
	slot, ok := e.lookup(o.Kind, o.UID)
	if e.reportedElsewhere(&o) && (!ok || x.At(slot).State != index.InFlight) {
		if ok {
			e.release(slot)
		}
		return
	}
	if !ok {
		slot = x.Add(o.UID, e.kinds[o.Kind].trigger.id)
		x.Set(slot, &o)
		x.At(slot).State = index.Tombstone // not counted as tracked, until below
	} else {
		e.countForeign(slot, o.UID, since)
		if o.Expiry.IsZero() {
			o.Expiry = time.Unix(0, x.At(slot).Expiry)
		}
		if x.At(slot).Compare(o.ResourceVersion) != index.Older {
			e.write(slot, &o)
		}
	}
	en := x.At(slot)
	en.Gen = e.kinds[en.Kind].gen
	nanos := index.Nanos(since.Add(e.opts.StuckAfter))
	switch {
	case en.State == index.InFlight:
		en.Flags |= index.FlagTerminating
		en.Wake = nanos
	case en.State == index.Terminating && en.Flags&index.FlagStuck != 0:
	default:
		e.enter(slot, index.Terminating, nanos)
	}
}

// countForeign counts a due object that another client deletes. It does not count an object that
// Curfew may have deleted: a request is under way, was accepted, or got no answer.
func (e *entries) countForeign(slot uint32, uid types.UID, since time.Time) {
	en := e.index.At(slot)
	t := e.triggers[en.Trigger]
	if !t.Deletes || en.Expiry > index.Nanos(since) || en.Flags&index.FlagUnanswered != 0 {
		return
	}
	for _, id := range e.index.All(uid) {
		if s := e.index.At(id).State; s != index.Armed && s != index.Reported {
			return
		}
	}
	kind := e.kinds[en.Kind].opts.GroupKind()
	e.byOthers.WithLabelValues(t.Name, kind.Group, kind.Kind).Inc()
}

// reportedElsewhere reports whether another trigger already waits for the object's end: a stuck
// object is reported once.
func (e *entries) reportedElsewhere(o *Entry) bool {
	own := e.kinds[o.Kind].trigger.id
	return slices.ContainsFunc(e.index.All(o.UID), func(slot uint32) bool {
		en := e.index.At(slot)
		return en.Trigger != own && en.State == index.Terminating
	})
}

// rest puts an entry into a state in which it waits in no heap.
func (e *entries) rest(slot uint32, s index.State) {
	e.index.Pull(slot)
	e.to(slot, s)
}

func tracked(s index.State) bool {
	return s == index.Armed || s == index.InFlight || s == index.Reported
}

// to changes the state and updates the counters.
func (e *entries) to(slot uint32, s index.State) {
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
func (e *entries) overdue(slot uint32) {
	if en := e.index.At(slot); en.Flags&index.FlagLate == 0 {
		en.Flags |= index.FlagLate
		e.late++
	}
}

// punctual is the reverse of overdue.
func (e *entries) punctual(slot uint32) {
	delete(e.blocked, slot)
	if en := e.index.At(slot); en.Flags&index.FlagLate != 0 {
		en.Flags &^= index.FlagLate
		e.late--
	}
}

// bury turns an entry into a tombstone. The object is gone, so its name is dropped.
func (e *entries) bury(slot uint32, now int64) {
	en := e.index.At(slot)
	if en.Flags&index.FlagStuck != 0 {
		e.stuck--
		en.Flags &^= index.FlagStuck
	}
	en.Name = ""
	e.dropPayload(slot)
	e.enter(slot, index.Tombstone, now+int64(keepOut))
}

// release removes an entry and updates the counters.
func (e *entries) release(slot uint32) {
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

func (e *entries) dropPayload(slot uint32) {
	if t := e.triggers[e.index.At(slot).Trigger]; t.Payload {
		e.payloads.drop(t, e.index.UID(slot))
	}
}

// rewake moves the wake time of waiting entries forward to an instant. It walks the whole index:
// call it for rare events only.
func (e *entries) rewake(nanos int64, which func(en *index.Record) bool) {
	for c := 0; e.index.Each(c, func(slot uint32, en *index.Record) {
		if en.Waits() && en.Wake > nanos && which(en) {
			en.Flags &^= index.FlagParked
			en.Wake = nanos
			e.index.Move(slot)
		}
	}); c++ {
	}
	e.wakeUp()
}

var errIncomplete = errors.New("kind, UID or name is missing")

func (e *entries) valid(o *Entry) bool {
	if int(o.Kind) < len(e.kinds) && o.Kind != 0 && o.UID != "" && o.Name != "" {
		return true
	}
	e.note(func() {
		e.opts.Log.Error(errIncomplete, "not tracked: this is a bug", "object", nameOf(o), "uid", o.UID, "kind", o.Kind)
	})
	return false
}
