package feedset

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Changes counts changes of rules, by kind.
type Changes map[schema.GroupKind]int

// Outdated holds the deletions of a kind whose rules have changed: its feed judges by the old
// rules, and a feed with the new rules needs a moment to start. The rules of labels stay the same,
// except for the propagation that the profile sets, which is read when an object is judged again.
func (s *Set) Outdated(kind schema.GroupKind) {
	s.mu.Lock()
	s.changes[kind]++
	for key, one := range s.running {
		if key.Purpose == Finish && one.spec.Kind.GroupKind() == kind {
			s.hold(key, true)
		}
	}
	s.mu.Unlock()
	s.Rejudge("", func(spec *Spec) bool { return spec.Purpose != Finish && spec.Kind.GroupKind() == kind })
}

// Changes returns the changes of rules that no feed knows yet. Call it before the rules are read.
func (s *Set) Changes() Changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.changes)
}

// caughtUp notes that the wanted feeds take the seen changes into account. The mutex is held.
func (s *Set) caughtUp(seen Changes) {
	for kind, count := range seen {
		if s.changes[kind] == count {
			delete(s.changes, kind)
		}
	}
}

// release lets the deletions of a kind go on once it has a feed. If its rules have changed again
// meanwhile, the new feed is outdated as well and the deletions stay on hold. The mutex is held.
func (s *Set) release(r *running) {
	if r.feed != nil && s.running[r.spec.Key] == r {
		s.hold(r.spec.Key, r.spec.Purpose == Finish && s.changes[r.spec.Kind.GroupKind()] > 0)
	}
}

// hold stops the deletions of the objects tracked under a key, or lets them go on. The mutex is
// held.
func (s *Set) hold(key Key, on bool) {
	for _, handle := range s.tracked[key] {
		s.options.Tracker.Hold(handle, on)
	}
}
