package engine

import "sync/atomic"

// changes counts changes in the context of objects: namespaces, policies, profiles, runtimes. An
// entry carries the count from before it was judged, so that one comparison shows whether its
// judgement is older than the last change that concerns it. The cost of a change does not depend on
// the number of objects that it concerns.
type changes struct {
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

// changesMost bounds how many namespaces are remembered, for all kinds together. Beyond it, the
// kind with the most namespaces counts as changed everywhere, which costs one live read before each
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

// forget replaces the changes of single namespaces with a change of everything. The lock is held.
func (e *Engine) forget(c *lastChanges, now uint64) {
	e.changes.remembered -= len(c.namespaces)
	*c = lastChanges{all: now}
}

// Epoch is the number of changes so far. Take it before you read what an object's judgement depends
// on, and pass it as Object.Epoch.
func (e *Engine) Epoch() uint64 { return e.changes.count.Load() }

// RecheckNamespace notes that the settings of a namespace changed. Before the next DELETE of each
// object in it the kind's Judge reads and judges the object again, even if a worker has judged it
// already but has not sent its DELETE yet. Call it after caches show the change.
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
// with false: its rules changed, and no Judge with the new rules is registered yet. The engine
// keeps the objects, and afterwards judges each again before it deletes it. Other scopes go on,
// since one namespace may lack a permission for long.
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

// outdated reports whether the context of an object changed after it was judged, so that the
// judgement no longer permits a DELETE.
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
