package follow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// Cached is the [platform.Source] that finds out when an object may be due.
type Cached struct {
	Platform   *Platform
	Namespaces *Namespaces
	// Jobs is nil where no Pod is ever deleted, as in admission.
	Jobs *Jobs
}

// Snapshot implements [platform.Source]. It is an error until all policies are known: a bound that
// is not known cannot keep what lies outside of it (S6).
func (c Cached) Snapshot(context.Context) (*platform.Snapshot, error) {
	if err := c.Platform.Policies.mirror.Known(); err != nil {
		return nil, fmt.Errorf("reading LifecyclePolicies: %w", err)
	}
	return c.Platform.store.Snapshot(), nil
}

// Namespace implements [platform.Source].
func (c Cached) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	read, err := c.Namespaces.Namespace(ctx, name)
	if IsGone(err) {
		return nil, nil // It is gone, and its objects go with it.
	}
	return read, err
}

// Runtime implements [platform.Source].
func (c Cached) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	return c.Platform.Runtimes.Runtime(ctx, reference)
}

// PodCounter implements [platform.Source].
func (c Cached) PodCounter(_ context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	switch {
	case c.Jobs == nil:
		return nil, platform.ErrUnknown
	case pod.OwnedByJob():
		return c.Jobs.PodCounter(pod), nil
	}
	counter, err := c.Platform.Tallies.Counter(pod)
	if err != nil { // For one Pod the others must not wait.
		return resolution.UnreadableCounter(pod, err), nil
	}
	return counter, nil
}

// Live reads policies, profiles, namespaces and runtimes from the API server, whatever the cache
// holds.
func (c Cached) Live() platform.Source { return confirmed{Share(live{c}), c.Platform} }

// confirmed is the [platform.Source] that decides right before an object is deleted or stopped.
type confirmed struct {
	platform.Source
	platform *Platform
}

// Snapshot implements [platform.Source]. A judgement that is made live uses no default that was
// taken back a second ago, and no profile that was corrected. One list of each serves all who ask
// within a second (contract, section 4). A DELETE without one does not compare the live profile.
func (c confirmed) Snapshot(ctx context.Context) (*platform.Snapshot, error) {
	read, err := c.platform.live.get(ctx)
	if err != nil {
		return nil, err
	}
	return read.Snapshot, nil
}

// live reads all but the rules, which are shared by all who judge.
type live struct{ Cached }

// Namespace implements [platform.Source]. A namespace that cannot be read is an error.
func (l live) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	return l.Namespaces.LiveNamespace(ctx, name)
}

// Runtime implements [platform.Source].
func (l live) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	return l.Platform.Runtimes.LiveRuntime(ctx, reference)
}

// PodCounter implements [platform.Source].
func (l live) PodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	switch {
	case l.Jobs == nil:
		return nil, platform.ErrUnknown
	case pod.OwnedByJob():
		return l.Jobs.LivePodCounter(ctx, pod)
	default:
		return l.Platform.Tallies.LiveCounter(ctx, l.Jobs.Owners.Client, pod)
	}
}

// sharing is a [platform.Source] that reads once for all who ask at the same time.
type sharing struct {
	source     platform.Source
	snapshots  *shared[*platform.Snapshot]
	namespaces *shared[*resolution.NamespacePolicy]
	runtimes   *shared[map[string]any]
	counters   *shared[*resolution.PodCounter]
}

// Share lets all who ask a source at the same time have one answer, which is no older than what
// each would have read.
func Share(source platform.Source) platform.Source {
	return &sharing{
		source, newShared[*platform.Snapshot](), newShared[*resolution.NamespacePolicy](),
		newShared[map[string]any](), newShared[*resolution.PodCounter](),
	}
}

// Snapshot implements [platform.Source].
func (s *sharing) Snapshot(ctx context.Context) (*platform.Snapshot, error) {
	return s.snapshots.get(ctx, "", s.source.Snapshot)
}

// Namespace implements [platform.Source].
func (s *sharing) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	return s.namespaces.get(ctx, name, func(ctx context.Context) (*resolution.NamespacePolicy, error) { return s.source.Namespace(ctx, name) })
}

// Runtime implements [platform.Source].
func (s *sharing) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	key := fmt.Sprintf("%s %s/%s %t %q", reference.Kind, reference.Namespace, reference.Name, reference.Whole, reference.Fields)
	return s.runtimes.get(ctx, key, func(ctx context.Context) (map[string]any, error) { return s.source.Runtime(ctx, reference) })
}

// PodCounter implements [platform.Source].
func (s *sharing) PodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	key := pod.Namespace + "/" + string(pod.CountedBy())
	if owner := pod.Owner; pod.OwnedByJob() {
		// The author of a Pod chooses the reference. By the UID alone, a Pod that names no Job would
		// share the answer "the Job is gone" with the Pods of the Job that has the UID (S6).
		key = fmt.Sprintf("%s/%q", pod.Namespace, []string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)})
	}
	return s.counters.get(ctx, key, func(ctx context.Context) (*resolution.PodCounter, error) { return s.source.PodCounter(ctx, pod) })
}

// sharedTimeout bounds one shared read. Each caller that waits for it has its own bound.
const sharedTimeout = 30 * time.Second

// shared reads once for many callers. A read answers only the callers that asked before it began.
// So no answer is older than one that its caller had read itself (S1, S6), and a thousand deletions
// that need one namespace read it a few times a round trip, and not a thousand times.
type shared[V any] struct {
	mu    sync.Mutex
	calls map[string]*call[V]
}

// call is the read under way, and the next one for callers that came too late for it.
type call[V any] struct{ now, next *answer[V] }

type answer[V any] struct {
	read  func(context.Context) (V, error)
	done  chan struct{}
	value V
	err   error
}

func newShared[V any]() *shared[V] { return &shared[V]{} }

// get answers with a read of the key that began after get was called.
func (s *shared[V]) get(ctx context.Context, key string, read func(context.Context) (V, error)) (V, error) {
	s.mu.Lock()
	c := s.calls[key]
	if c == nil {
		c = &call[V]{now: &answer[V]{read: read, done: make(chan struct{})}}
		if s.calls == nil {
			s.calls = map[string]*call[V]{}
		}
		s.calls[key] = c
		// It serves others too, so that it does not end with the one who happened to come first.
		go s.run(context.WithoutCancel(ctx), key, c)
		a := c.now
		s.mu.Unlock()
		return a.wait(ctx)
	}
	if c.next == nil {
		c.next = &answer[V]{read: read, done: make(chan struct{})}
	}
	a := c.next
	s.mu.Unlock()
	return a.wait(ctx)
}

func (a *answer[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// run reads for as long as a caller waits.
func (s *shared[V]) run(ctx context.Context, key string, c *call[V]) {
	for {
		s.mu.Lock()
		a := c.now
		s.mu.Unlock()
		once, cancel := context.WithTimeout(ctx, sharedTimeout)
		a.value, a.err = a.read(once)
		cancel()
		close(a.done)
		s.mu.Lock()
		c.now, c.next = c.next, nil
		if c.now == nil {
			delete(s.calls, key)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// recent shares each answer for a while, too: with all who ask less than recentFor after its read
// was sent, as long as nothing is known to have changed since before that. No two reads are sent
// closer together.
type recent[V any] struct {
	shared *shared[V]
	clock  clock.Clock
	// read reads, and known returns the changes that were seen so far.
	read  func(context.Context) (V, error)
	known func() any

	mu   sync.Mutex
	last V
	ok   bool
	as   any // what was known before the last read was sent
	sent time.Time
}

// recentFor is how old rules may be that permit a DELETE, if no change of them is known.
const recentFor = time.Second

func newRecent[V any](clock clock.Clock, read func(context.Context) (V, error), known func() any) *recent[V] {
	return &recent[V]{shared: newShared[V](), clock: clock, read: read, known: known}
}

func (r *recent[V]) get(ctx context.Context) (V, error) {
	if value, _, ok := r.answer(); ok {
		return value, nil
	}
	return r.shared.get(ctx, "", r.next)
}

// answer is the last answer, if it is good for a question of now. Otherwise wait is how long no
// read may be sent.
func (r *recent[V]) answer() (value V, wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := deletion.Age(r.clock.Now(), r.sent)
	if r.sent.IsZero() || age < 0 || age >= recentFor {
		return value, 0, false
	}
	return r.last, recentFor - age, r.ok && r.as == r.known()
}

// next sends a read, unless another one answers by now.
func (r *recent[V]) next(ctx context.Context) (V, error) {
	value, wait, ok := r.answer()
	if ok {
		return value, nil
	}
	if wait > 0 && !loop.Pause(ctx, r.clock, wait) {
		return value, ctx.Err()
	}
	r.mu.Lock()
	r.ok, r.as, r.sent = false, r.known(), r.clock.Now()
	r.mu.Unlock()
	value, err := r.read(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.ok = value, err == nil
	return value, err
}
