package discovery

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
)

// Options of a [Set].
type SetOptions struct {
	// Tracker is the engine.
	Tracker Tracker
	// Lacks returns the permissions that Curfew does not have in a namespace, or with ""
	// everywhere; nil means that it has all.
	Lacks func(ctx context.Context, namespace string, needs []permission.Need) ([]permission.Need, error)
	Clock clock.Clock
}

// Set runs the feeds that its sources want.
type Set struct {
	options SetOptions

	mu      sync.Mutex
	running map[Key]*running
	// ending are feeds that have been stopped and have not ended yet.
	ending []*running
	// tracked are the engine's handles that are in use for a key, until ForgetKind.
	tracked map[Key][]expire.Kind
	// changes counts, by kind, the changes of rules that no feed knows yet.
	changes map[schema.GroupKind]int
	closed  bool
}

// New makes an empty set.
func NewSet(options SetOptions) *Set {
	return &Set{
		options: options, running: map[Key]*running{}, tracked: map[Key][]expire.Kind{}, changes: map[schema.GroupKind]int{},
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
	for key, running := range s.running {
		if running.source != source {
			continue
		}
		if want := wanted[key]; want != nil && want.Version == running.spec.Version {
			if seen[running.spec.Kind.GroupKind()] > 0 {
				s.release(running) // The change made no difference to this feed.
			}
			continue
		}
		delete(s.running, key)
		running.cancel()
		s.ending = append(s.ending, running)
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
	started := &running{set: s, source: source, spec: spec, cancel: cancel, done: make(chan struct{})}
	s.running[spec.Key] = started
	for _, other := range s.ending {
		if other.spec.sameObjects(spec.Key) {
			started.after = append(started.after, other.done)
		}
	}
	go started.run(ctx)
}

// Run stops all feeds when ctx is done, and returns when they have ended.
func (s *Set) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	all := slices.Clone(s.ending)
	for _, running := range s.running {
		running.cancel()
		all = append(all, running)
	}
	s.mu.Unlock()
	for _, running := range all {
		<-running.done
	}
	return nil
}

// Rejudge makes the feeds that a change concerns judge the objects in a namespace, or with "" all
// of their objects, again. A feed that has not started yet judges everything when it starts.
func (s *Set) Rejudge(namespace string, concerns func(*Spec) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, running := range s.running {
		switch {
		case running.feed == nil || !concerns(running.spec):
		case namespace == "":
			running.feed.RejudgeAll()
		default:
			running.feed.RejudgeNamespace(namespace)
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
	if running := s.running[pods]; running != nil {
		if feed, ok := running.feed.(interface {
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

// running is one feed that runs, or waits for a predecessor or a permission. It has a goroutine of
// its own, so that no kind delays another.
type running struct {
	set    *Set
	source *Source
	spec   *Spec
	cancel context.CancelFunc
	// after are the feeds that have to end first.
	after []<-chan struct{}
	// done is closed once the feed has ended and its objects are forgotten or left to a successor.
	done chan struct{}
	// feed is nil until it was made. Guarded by the set's mutex.
	feed Feed
}

func (r *running) run(ctx context.Context) {
	defer close(r.done)
	defer r.ended()
	for _, done := range r.after {
		<-done
	}
	if !r.set.ask(ctx, r.source, r.spec, &r.spec.Required) {
		return
	}
	feed := r.make(ctx)
	if feed == nil {
		return
	}
	r.began(feed)
	var beside sync.WaitGroup
	defer beside.Wait()
	for i := range r.spec.Optional {
		beside.Go(func() { r.set.ask(ctx, r.source, r.spec, &r.spec.Optional[i]) })
	}
	if err := feed.Run(ctx); err != nil && ctx.Err() == nil {
		r.source.Log.Error(err, "the feed of a kind ended", "kind", r.spec.Kind.GroupKind().String(), "purpose", r.spec.Purpose)
	}
}

// make makes the feed, however often that fails. It returns nil once ctx is done.
func (r *running) make(ctx context.Context) Feed {
	kind := r.spec.Kind.GroupKind()
	defer r.source.Skipped.DeleteLabelValues(kind.Group, kind.Kind, "error")
	for backoff := loop.NewBackoff(); ctx.Err() == nil; loop.Pause(ctx, r.set.options.Clock, backoff.Next()) {
		feed, err := r.source.Make(r.spec)
		if err == nil {
			return feed
		}
		r.source.Skipped.WithLabelValues(kind.Group, kind.Kind, "error").Set(1)
		r.source.Log.Error(err, "kind cannot be watched, trying again", "kind", kind.String(), "purpose", r.spec.Purpose)
	}
	return nil
}

// began lets the feed take over the objects of its predecessor. It forgets the handles that the
// feed does not use, since no feed judges them any more: for example deadlines, once the kind's own
// controller enforces them.
func (r *running) began(feed Feed) {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()
	handles := feed.Handles()
	for _, old := range s.tracked[r.spec.Key] {
		if !slices.Contains(handles, old) {
			s.options.Tracker.ForgetKind(old)
		}
	}
	s.tracked[r.spec.Key] = handles
	r.feed = feed
	s.release(r)
	if r.spec.Profile == nil {
		return
	}
	log := r.source.Log.WithValues("kind", r.spec.Kind.Kind, "resource", r.spec.VersionResource().String(), "profile", r.spec.Profile.Name)
	log.Info("kind is watched")
	if reason := r.spec.Profile.Unenforced; reason != "" {
		log.Info("deadlines of a kind are not enforced", "reason", reason)
	}
}

// ended forgets the objects of the feed, unless its successor takes them over or the process ends.
func (r *running) ended() {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = slices.DeleteFunc(s.ending, func(other *running) bool { return other == r })
	successor := s.running[r.spec.Key]
	if s.closed || successor == r || successor != nil && successor.spec.inherits(r.spec) {
		return
	}
	for _, handle := range s.tracked[r.spec.Key] {
		s.options.Tracker.ForgetKind(handle)
	}
	delete(s.tracked, r.spec.Key)
	if r.spec.Purpose == Finish {
		r.source.Log.Info("kind is gone: nothing of it is tracked any more", "kind", r.spec.Kind.Kind,
			"resource", r.spec.VersionResource().String())
	}
}

// Changes counts changes of rules, by kind.
type Changes map[schema.GroupKind]int

// Outdated holds the deletions of a kind whose rules have changed: its feed judges by the old
// rules, and a feed with the new rules needs a moment to start. The rules of labels stay the same,
// except for the propagation that the profile sets, which is read when an object is judged again.
func (s *Set) Outdated(kind schema.GroupKind) {
	s.mu.Lock()
	s.changes[kind]++
	for key, running := range s.running {
		if key.Purpose == Finish && running.spec.Kind.GroupKind() == kind {
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
