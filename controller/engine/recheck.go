package engine

import "sync/atomic"

// changes counts what changed around the objects: namespaces, policies, profiles, runtimes. An
// entry carries the count from before it was judged, so that one comparison shows whether its
// judgement is older than the last change that concerns it. A change costs the same however many
// objects it concerns.
type changes struct {
	count atomic.Uint64
	// last are the changes that concern all kinds; kindState.last are those of one kind. The
	// engine's lock guards both.
	last lastChanges
	// remembered is how many namespaces are remembered in all of them.
	remembered int
}

// lastChanges are the last change that concerns everything, and the last in single namespaces.
type lastChanges struct {
	all        uint64
	namespaces map[string]uint64
}

func (c *lastChanges) in(namespace string) uint64 { return max(c.all, c.namespaces[namespace]) }

// changesMost bounds how many namespaces are remembered, of all kinds together. Beyond that
// everything of the kind with the most counts as changed, which costs one live read before each
// deletion until the object is judged again.
const changesMost = 10000

// remember notes a change in a namespace. The lock is held.
func (e *Engine) remember(c *lastChanges, namespace string, now uint64) {
	if _, known := c.namespaces[namespace]; !known {
		if e.changes.remembered >= changesMost {
			most := &e.changes.last
			for _, k := range e.kinds[1:] {
				if len(k.last.namespaces) > len(most.namespaces) {
					most = &k.last
				}
			}
			e.forget(most, now)
		}
		e.changes.remembered++
	}
	if c.namespaces == nil {
		c.namespaces = map[string]uint64{}
	}
	c.namespaces[namespace] = now
}

// forget has everything count as changed in place of single namespaces. The lock is held.
func (e *Engine) forget(c *lastChanges, now uint64) {
	e.changes.remembered -= len(c.namespaces)
	*c = lastChanges{all: now}
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
	e.remember(&e.changes.last, name, e.changes.count.Add(1))
}

// RecheckIn does the same for the objects of some kinds in a namespace. Objects of other kinds do
// not depend on what changed, and cost no live read.
func (e *Engine) RecheckIn(namespace string, kinds ...Kind) {
	e.mu.Lock()
	defer e.unlock()
	now := e.changes.count.Add(1)
	for _, k := range kinds {
		e.remember(&e.kinds[k].last, namespace, now)
	}
}

// RecheckKinds does the same for all objects of kinds that a policy, a profile or a runtime
// concerns.
func (e *Engine) RecheckKinds(kinds ...Kind) {
	e.mu.Lock()
	defer e.unlock()
	now := e.changes.count.Add(1)
	for _, k := range kinds {
		e.forget(&e.kinds[k].last, now)
	}
}

// Hold stops the deletions of a kind, for its trigger and in its scope, until Hold is called again
// with false: its rules changed, and a Judge that knows the new ones is not registered yet. Nothing
// is forgotten meanwhile. Afterwards everything is judged again before it is deleted. Other scopes
// go on: one namespace may lack a permission for long.
func (e *Engine) Hold(k Kind, on bool) {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	of := e.kinds[k]
	e.forget(&of.last, e.changes.count.Add(1))
	if of.held && !on {
		now, _ := e.guard.now(r)
		e.rewake(now, func(en *entry) bool {
			return en.kind == k && en.state == stateArmed && en.flags&flagParked != 0
		})
	}
	of.held = on
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
	return o.Epoch < max(e.changes.last.in(o.Namespace), e.kinds[o.Kind].last.in(o.Namespace))
}
