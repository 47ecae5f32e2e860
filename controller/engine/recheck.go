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
	// engine's lock guards them. kindState.changed is the same for a kind.
	all        uint64
	namespaces map[string]uint64
}

// changesMost bounds how many namespaces are remembered. Beyond that everything counts as changed,
// which costs one live read before each deletion until the object is judged again.
const changesMost = 10000

// Epoch is the number of changes so far. Take it before you read what an object's judgement depends
// on, and pass it as Object.Epoch.
func (e *Engine) Epoch() uint64 { return e.changes.count.Load() }

// RecheckNamespace says that the settings of a namespace changed. Before the next DELETE of each
// object in it the kind's Judge reads and judges the object again, also where a worker has judged
// it already but has not sent its DELETE yet. Call it after caches show the change.
func (e *Engine) RecheckNamespace(name string) {
	e.mu.Lock()
	defer e.unlock()
	c := &e.changes
	now := c.count.Add(1)
	if _, known := c.namespaces[name]; !known && len(c.namespaces) >= changesMost {
		c.all = now
		clear(c.namespaces)
		return
	}
	if c.namespaces == nil {
		c.namespaces = map[string]uint64{}
	}
	c.namespaces[name] = now
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
	return o.Epoch < max(e.changes.all, e.kinds[o.Kind].changed, e.changes.namespaces[o.Namespace])
}
