package engine

import (
	"slices"
	"sync/atomic"
)

// changes counts what changed around the objects: namespaces, policies, profiles, runtimes. An
// entry carries the count from before it was judged, so that one comparison shows whether its
// judgement is older than the last change that concerns it. A change costs the same however many
// objects it concerns.
type changes struct {
	count atomic.Uint64
	// all and namespaces are the last change that concerns everything, or one namespace. The
	// engine's lock guards them. kindState.changed and kindState.namespaces are the same for a kind.
	all        uint64
	namespaces changedIn
}

// changedIn is the last change that concerns one namespace, by its name.
type changedIn map[string]uint64

// changesMost bounds how many namespaces are remembered, and for each kind again. Beyond that
// everything counts as changed, or all of the kind, which costs one live read before each deletion
// until the object is judged again.
const changesMost = 10000

// note remembers a change. It returns false, and forgets all, if there are too many namespaces.
func (c *changedIn) note(namespace string, now uint64) bool {
	if _, known := (*c)[namespace]; !known && len(*c) >= changesMost {
		clear(*c)
		return false
	}
	if *c == nil {
		*c = changedIn{}
	}
	(*c)[namespace] = now
	return true
}

// Epoch is the number of changes so far. Take it before you read what an object's judgement depends
// on, and pass it as Object.Epoch.
func (e *Engine) Epoch() uint64 { return e.changes.count.Load() }

// RecheckNamespace says that the settings of a namespace changed. Before the next DELETE of each
// object in it the kind's Judge reads and judges the object again, also where a worker has judged
// it already but has not sent its DELETE yet. Call it after caches show the change.
func (e *Engine) RecheckNamespace(name string) {
	e.mu.Lock()
	defer e.unlock()
	now := e.changes.count.Add(1)
	if !e.changes.namespaces.note(name, now) {
		e.changes.all = now
	}
}

// RecheckIn does the same for the objects of some kinds in a namespace. Objects of other kinds do
// not depend on what changed, and cost no live read.
func (e *Engine) RecheckIn(namespace string, kinds ...Kind) {
	e.mu.Lock()
	defer e.unlock()
	now := e.changes.count.Add(1)
	for _, k := range kinds {
		if of := e.kinds[k]; !of.namespaces.note(namespace, now) {
			of.changed = now
		}
	}
}

// RecheckKinds does the same for all objects of kinds that a policy, a profile or a runtime
// concerns.
func (e *Engine) RecheckKinds(kinds ...Kind) {
	e.mu.Lock()
	defer e.unlock()
	now := e.changes.count.Add(1)
	for _, k := range kinds {
		e.kinds[k].changed = now
	}
}

// Hold stops the deletions of a kind for its trigger until Hold is called again with false: its
// rules changed, and a Judge that knows the new ones is not registered yet. Nothing is forgotten
// meanwhile. Afterwards everything is judged again before it is deleted.
func (e *Engine) Hold(k Kind, on bool) {
	e.mu.Lock()
	defer e.unlock()
	e.kinds[k].changed = e.changes.count.Add(1)
	q := e.index.queueOf(k)
	q.held = slices.DeleteFunc(q.held, func(held Kind) bool { return held == k })
	if on {
		q.held = append(q.held, k)
		return
	}
	e.wakeUp()
}

// outdated reports whether something changed after an object was judged, so that its judgement does
// not permit a DELETE any more.
func (e *Engine) outdated(o *Object) bool {
	if o.Epoch == e.changes.count.Load() {
		return false // The common case takes no lock.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outdatedLocked(o)
}

// outdatedLocked is outdated with the lock held.
func (e *Engine) outdatedLocked(o *Object) bool {
	kind := e.kinds[o.Kind]
	return o.Epoch < max(e.changes.all, kind.changed, kind.namespaces[o.Namespace], e.changes.namespaces[o.Namespace])
}
