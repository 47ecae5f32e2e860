package registry

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// profileChanged holds the deletions of the kinds that a changed profile concerns: what their feeds judge
// by is wrong from now on, and a feed with the new rules needs a moment to start.
func (r *Registry) profileChanged(old, new *compiledProfile) {
	if old != nil && new != nil && old.uid == new.uid && old.Generation == new.Generation {
		return // Only its status or metadata changed.
	}
	kinds := map[schema.GroupKind]bool{}
	for _, profile := range []*compiledProfile{old, new} {
		if profile != nil {
			kinds[profile.Kind.GroupKind()] = true
		}
	}
	r.mu.Lock()
	for at := range kinds {
		r.changed[at]++
		if k := r.running[at]; k != nil {
			r.hold(k.resource(), true)
		}
	}
	r.mu.Unlock()
	for at := range kinds {
		for _, f := range r.onProfile {
			f(at)
		}
	}
}

// OnProfile registers a function that is told of kinds whose profile changed. Call it before Run.
func (r *Registry) OnProfile(f func(kind schema.GroupKind)) { r.onProfile = append(r.onProfile, f) }

// pendingChanges are the changes of profiles so far. Call it before the profiles are read.
func (r *Registry) pendingChanges() map[schema.GroupKind]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.changed)
}

// caughtUp notes that the feeds are in step with the profiles after those changes. The mutex is held.
func (r *Registry) caughtUp(changes map[schema.GroupKind]int) {
	for at, count := range changes {
		if r.changed[at] == count {
			delete(r.changed, at)
		}
	}
}

// release lets deletions of a kind go on once it has a feed. Where its profile changed again meanwhile, that feed
// judges by the wrong rules as well, and they stay on hold. The mutex is held.
func (r *Registry) release(k *kind) {
	if at := k.profile.Kind.GroupKind(); k.feed != nil && r.running[at] == k {
		r.hold(k.resource(), r.changed[at] > 0)
	}
}

func (r *Registry) hold(resource schema.GroupVersionResource, on bool) {
	if r.options.Hold != nil {
		r.options.Hold(resource, on)
	}
}
