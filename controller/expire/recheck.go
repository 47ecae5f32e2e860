package expire

import (
	"errors"
	"sync/atomic"
	"time"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// changes counts changes in the context of objects: namespaces, policies, profiles, runtimes. An
// entry carries the count from before it was judged, so that one comparison shows whether its
// judgement is older than the last change that concerns it. The cost of a change does not depend on
// the number of objects that it concerns.
type changes struct {
	*entries
	count atomic.Uint64
	// last are the changes that concern all kinds, and kindState.last the changes of one kind. The
	// engine's lock guards both.
	last lastChanges
	// remembered is the number of namespaces in all of them.
	remembered int
}

// lastChanges hold the last change that concerns everything, and the last change of each namespace.
type lastChanges struct {
	all        uint64
	namespaces map[string]uint64
}

func (c *lastChanges) in(namespace string) uint64 { return max(c.all, c.namespaces[namespace]) }

// maxChanges bounds how many namespaces are remembered, for all kinds together. Beyond it, the
// kind with the most namespaces counts as changed everywhere, which costs one live read before each
// deletion until the object is judged again.
const maxChanges = 10000

// remember notes a change in a namespace. The lock is held.
func (e *changes) remember(c *lastChanges, namespace string, now uint64) {
	if _, known := c.namespaces[namespace]; !known {
		if e.remembered >= maxChanges {
			most := &e.last
			for _, k := range e.kinds[1:] {
				if len(k.last.namespaces) > len(most.namespaces) {
					most = &k.last
				}
			}
			e.forget(most, now)
		}
		e.remembered++
	}
	if c.namespaces == nil {
		c.namespaces = map[string]uint64{}
	}
	c.namespaces[namespace] = now
}

// forget replaces the changes of single namespaces with a change of everything. The lock is held.
func (e *changes) forget(c *lastChanges, now uint64) {
	e.remembered -= len(c.namespaces)
	*c = lastChanges{all: now}
}

// Epoch is the number of changes so far. Take it before you read what an object's judgement depends
// on, and pass it as Entry.Epoch.
func (e *changes) Epoch() uint64 { return e.count.Load() }

// RecheckNamespace notes that the settings of a namespace changed. Before the next DELETE of each
// object in it the kind's Judge reads and judges the object again, even if a worker has judged it
// already but has not sent its DELETE yet. Call it after caches show the change.
func (e *changes) RecheckNamespace(name string) {
	e.mu.Lock()
	defer e.unlock()
	e.remember(&e.last, name, e.count.Add(1))
}

// RecheckIn does the same for the objects of some kinds in a namespace. Objects of other kinds do
// not depend on what changed, and cost no live read.
func (e *changes) RecheckIn(namespace string, kinds ...Kind) {
	e.mu.Lock()
	defer e.unlock()
	now := e.count.Add(1)
	for _, k := range kinds {
		e.remember(&e.kinds[k].last, namespace, now)
	}
}

// RecheckKinds does the same for all objects of kinds that a policy, a profile or a runtime
// concerns.
func (e *changes) RecheckKinds(kinds ...Kind) {
	e.mu.Lock()
	defer e.unlock()
	now := e.count.Add(1)
	for _, k := range kinds {
		e.forget(&e.kinds[k].last, now)
	}
}

// outdated reports whether the context of an object changed after it was judged, so that the
// judgement no longer permits a DELETE.
func (e *changes) outdated(o *Entry) bool {
	if o.Epoch == e.count.Load() {
		return false // The common case takes no lock.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outdatedLocked(o)
}

// outdatedLocked is outdated with the lock held.
func (e *changes) outdatedLocked(o *Entry) bool {
	return o.Epoch < max(e.last.in(o.Namespace), e.kinds[o.Kind].last.in(o.Namespace))
}

// ErrHeldByPause is the error of objects that are Held because of a DeletionPause.
var ErrHeldByPause = errors.New("held by a pause")

// heldFor is how long a held entry waits, unless the pauses change before.
const heldFor = time.Minute

// paused is the view of pauses that the engine acts by.
type paused struct {
	*entries
	view   deletion.PauseView
	parked bool // entries wait for a change of the view
}

// passable reports whether the engine knows the current pauses. If an entry is due, or soon will
// be, it requests a read of the pauses. The lock is held.
func (e *paused) passable(now int64, untracked bool) bool {
	if e.opts.Pauses == nil {
		return true
	}
	if !e.parked && !untracked && !e.dueBy(now+int64(deletion.Ahead)) {
		return true // There is nothing to hold.
	}
	e.opts.Pauses.Want()
	view, known := e.opts.Pauses.View()
	if !known {
		return false
	}
	if e.view.Version != view.Version {
		parked := e.parked
		e.view, e.parked = view, false
		if parked {
			e.rewake(now, func(en *index.Record) bool { return en.State == index.Armed && en.Flags&index.FlagParked != 0 })
		}
	}
	return true
}

// onHold reports whether a pause holds an object. The lock is held.
func (e *paused) onHold(o *Entry) bool {
	if e.opts.Pauses == nil {
		return false
	}
	k := e.kinds[o.Kind]
	return e.view.Holds(policy.Trigger(k.trigger.Name), scopeOf(k.opts, o))
}

// park makes an entry wait until the pauses change, or Engine.Hold lets its kind go on.
func (e *paused) park(slot uint32, now int64, byPause bool) {
	en := e.index.At(slot)
	if en.Expiry <= now {
		e.overdue(slot)
	}
	e.parked = e.parked || byPause
	en.Flags |= index.FlagParked
	e.enter(slot, index.Armed, now+int64(heldFor)+int64(e.opts.jitter()*float64(heldFor)))
}

func scopeOf(k *KindOptions, o *Entry) string {
	return judging.PauseScope(k.Resource.Group, k.Kind, o.Namespace, o.Name)
}
