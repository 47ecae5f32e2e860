package feedset

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
)

// Options of a [Set].
type Options struct {
	// Tracker is the engine.
	Tracker Tracker
	// Lacks returns the permissions that Curfew does not have in a namespace, or with ""
	// everywhere; nil means that it has all.
	Lacks func(ctx context.Context, namespace string, needs []permission.Need) ([]permission.Need, error)
	Clock clock.Clock
}

// Set runs the feeds that its sources want.
type Set struct {
	options Options

	mu      sync.Mutex
	running map[Key]*running
	// ending are feeds that have been stopped and have not ended yet.
	ending []*running
	// tracked are the engine's handles that are in use for a key, until ForgetKind.
	tracked map[Key][]engine.Kind
	// changes counts, by kind, the changes of rules that no feed knows yet.
	changes map[schema.GroupKind]int
	closed  bool
}

// New makes an empty set.
func New(options Options) *Set {
	return &Set{
		options: options, running: map[Key]*running{}, tracked: map[Key][]engine.Kind{}, changes: map[schema.GroupKind]int{},
	}
}

// Apply makes these the feeds of a source: it stops those that are no longer wanted or wanted in
// another version, and starts those that do not run yet. seen are the changes of rules that the
// specs take into account, see [Set.Changes].
func (s *Set) Apply(ctx context.Context, source *Source, specs []*Spec, seen Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.caughtUp(seen)
	wanted := make(map[Key]*Spec, len(specs))
	for _, spec := range specs {
		wanted[spec.Key] = spec
	}
	for key, one := range s.running {
		if one.source != source {
			continue
		}
		if want := wanted[key]; want != nil && want.Version == one.spec.Version {
			if seen[one.spec.Kind.GroupKind()] > 0 {
				s.release(one) // The change made no difference to this feed.
			}
			continue
		}
		delete(s.running, key)
		one.cancel()
		s.ending = append(s.ending, one)
		s.hold(key, true) // until its successor has started, or what it tracked is forgotten
	}
	for key, want := range wanted {
		if s.running[key] == nil {
			s.start(ctx, source, want)
		}
	}
}

// start runs a feed as soon as all feeds that it replaces have ended: a feed in another version, or
// one of all namespaces instead of one. The mutex is held.
func (s *Set) start(ctx context.Context, source *Source, spec *Spec) {
	ctx, cancel := context.WithCancel(ctx)
	one := &running{set: s, source: source, spec: spec, cancel: cancel, done: make(chan struct{})}
	s.running[spec.Key] = one
	for _, other := range s.ending {
		if other.spec.sameObjects(spec.Key) {
			one.after = append(one.after, other.done)
		}
	}
	go one.run(ctx)
}

// Run stops all feeds when ctx is done, and returns when they have ended.
func (s *Set) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	all := slices.Clone(s.ending)
	for _, one := range s.running {
		one.cancel()
		all = append(all, one)
	}
	s.mu.Unlock()
	for _, one := range all {
		<-one.done
	}
	return nil
}

// Rejudge makes the feeds that a change concerns judge the objects in a namespace, or with "" all
// of their objects, again. A feed that has not started yet judges everything when it starts.
func (s *Set) Rejudge(namespace string, concerns func(*Spec) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.running {
		switch {
		case one.feed == nil || !concerns(one.spec):
		case namespace == "":
			one.feed.RejudgeAll()
		default:
			one.feed.RejudgeNamespace(namespace)
		}
	}
}

// RejudgeNamespace has all objects in a namespace judged again.
func (s *Set) RejudgeNamespace(name string) { s.Rejudge(name, func(*Spec) bool { return true }) }

// RejudgePods judges the finished Pods of a Job again. labelled means that they carry its label.
// With an empty UID it judges all finished Pods of the namespace, or of the cluster.
func (s *Set) RejudgePods(namespace string, job types.UID, labelled bool) {
	pods := finish(policy.PodProfile).Key
	if job == "" {
		s.Rejudge(namespace, func(spec *Spec) bool { return spec.sameObjects(pods) })
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.running[pods]
	if one == nil {
		pods.Namespace = namespace
		one = s.running[pods]
	}
	if one != nil {
		if feed, ok := one.feed.(interface {
			RejudgePods(string, types.UID, bool)
		}); ok {
			feed.RejudgePods(namespace, job, labelled)
		}
	}
}

// RejudgeKinds has all objects of some kinds judged again.
func (s *Set) RejudgeKinds(concerns func(schema.GroupKind) bool) {
	s.Rejudge("", func(spec *Spec) bool { return concerns(spec.Kind.GroupKind()) })
}
