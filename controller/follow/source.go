package follow

import (
	"context"
	"fmt"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
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
func (c Cached) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
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
func (c Cached) PodCounter(_ context.Context, pod *policy.Facts) (*policy.PodCounter, error) {
	switch {
	case c.Jobs == nil:
		return nil, platform.ErrUnknown
	case pod.OwnedByJob():
		return c.Jobs.PodCounter(pod), nil
	}
	counter, err := c.Platform.Tallies.Counter(pod)
	if err != nil { // For one Pod the others must not wait.
		return policy.UnreadableCounter(pod, err), nil
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
	return c.platform.live.get(ctx)
}

// live reads all but the rules, which are shared by all who judge.
type live struct{ Cached }

// Namespace implements [platform.Source]. A namespace that cannot be read is an error.
func (l live) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	return l.Namespaces.LiveNamespace(ctx, name)
}

// Runtime implements [platform.Source].
func (l live) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	return l.Platform.Runtimes.LiveRuntime(ctx, reference)
}

// PodCounter implements [platform.Source].
func (l live) PodCounter(ctx context.Context, pod *policy.Facts) (*policy.PodCounter, error) {
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
	namespaces *shared[*policy.NamespacePolicy]
	runtimes   *shared[map[string]any]
	counters   *shared[*policy.PodCounter]
}

// Share lets all who ask a source at the same time have one answer, which is no older than what
// each would have read.
func Share(source platform.Source) platform.Source {
	return &sharing{
		source, newShared[*platform.Snapshot](), newShared[*policy.NamespacePolicy](), newShared[map[string]any](), newShared[*policy.PodCounter](),
	}
}

// Snapshot implements [platform.Source].
func (s *sharing) Snapshot(ctx context.Context) (*platform.Snapshot, error) {
	return s.snapshots.get(ctx, "", s.source.Snapshot)
}

// Namespace implements [platform.Source].
func (s *sharing) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	return s.namespaces.get(ctx, name, func(ctx context.Context) (*policy.NamespacePolicy, error) { return s.source.Namespace(ctx, name) })
}

// Runtime implements [platform.Source].
func (s *sharing) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	key := fmt.Sprintf("%s %s/%s", reference.Kind, reference.Namespace, reference.Name)
	return s.runtimes.get(ctx, key, func(ctx context.Context) (map[string]any, error) { return s.source.Runtime(ctx, reference) })
}

// PodCounter implements [platform.Source].
func (s *sharing) PodCounter(ctx context.Context, pod *policy.Facts) (*policy.PodCounter, error) {
	key := pod.Namespace + "/" + string(pod.CountedBy())
	if owner := pod.Owner; pod.OwnedByJob() {
		// The author of a Pod chooses the reference. By the UID alone, a Pod that names no Job would
		// share the answer "the Job is gone" with the Pods of the Job that has the UID (S6).
		key = fmt.Sprintf("%s/%q", pod.Namespace, []string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)})
	}
	return s.counters.get(ctx, key, func(ctx context.Context) (*policy.PodCounter, error) { return s.source.PodCounter(ctx, pod) })
}
