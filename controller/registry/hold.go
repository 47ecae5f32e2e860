package registry

import "k8s.io/apimachinery/pkg/runtime/schema"

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
		r.changed[at] = true
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

// takeChanged answers with the kinds whose profile changed since the last call. Call it before the
// profiles are read.
func (r *Registry) takeChanged() map[schema.GroupKind]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.changed
	r.changed = map[schema.GroupKind]bool{}
	return out
}

// keepChanged takes back what takeChanged answered with, because nothing could be done about it yet.
func (r *Registry) keepChanged(changed map[schema.GroupKind]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range changed {
		r.changed[at] = true
	}
}

// release lets deletions of a kind go on once its feed has started, unless its profile changed again meanwhile. The mutex is held.
func (r *Registry) release(k *kind) {
	if at := k.profile.Kind.GroupKind(); r.running[at] == k && k.feed != nil && !r.changed[at] {
		r.hold(k.resource(), false)
	}
}

func (r *Registry) hold(resource schema.GroupVersionResource, on bool) {
	if r.options.Hold != nil {
		r.options.Hold(resource, on)
	}
}
