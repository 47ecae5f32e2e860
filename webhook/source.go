package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

// NamespaceGetter reads what a namespace says.
type NamespaceGetter interface {
	// Namespace may answer from a cache; it reads live what that does not know.
	Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
	// LiveNamespace asks the API server.
	LiveNamespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
}

// NamespaceLister may be implemented by a [NamespaceGetter] as well.
type NamespaceLister interface {
	// Bounded are the namespaces with bounds, from a cache.
	Bounded() []*policy.NamespacePolicy
}

// RuntimeGetter reads the runtimes that objects refer to.
type RuntimeGetter interface {
	// Runtime returns nil if there is no such runtime, or if its kind is not served.
	Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error)
}

// source is the [platform.Source] of admission.
type source struct {
	store      *platform.Store
	namespaces NamespaceGetter
	runtimes   RuntimeGetter // nil if none is read
	tallies    TallyGetter   // nil if no Pod is counted
}

// liveReadTimeout leaves time for an answer within the five seconds that the API server waits.
const liveReadTimeout = 2 * time.Second

// Source is what the webhooks judge by, for those who are asked what admission would answer.
func (w *Webhooks) Source() platform.Source { return w.source }

// Snapshot implements [platform.Source].
func (s *source) Snapshot(context.Context) (*platform.Snapshot, error) {
	return s.store.Snapshot(), nil
}

// Namespace implements [platform.Source].
func (s *source) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	read, err := s.namespaces.Namespace(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return read, nil
}

// Runtime implements [platform.Source].
func (s *source) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	if s.runtimes == nil {
		return nil, platform.ErrUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	return s.runtimes.Runtime(ctx, reference)
}

// PodCounter implements [platform.Source]. Admission stamps nothing on Pods that a Job counts.
func (s *source) PodCounter(context.Context, *policy.Facts) (*policy.PodCounter, error) {
	return nil, platform.ErrUnknown
}

// inUse is the source for a request that could reach Curfew only because the API server knows the
// namespace to use it, or because a policy applies to the kind. A cache may be milliseconds behind
// that: if it contradicts it, the namespace is read live.
type inUse struct {
	*source
	pod  bool
	kind schema.GroupKind
}

// Namespace implements [platform.Source].
func (s *inUse) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	read, err := s.source.Namespace(ctx, name)
	if err != nil || len(s.store.Snapshot().Concerning(s.kind)) > 0 || s.pod && read.PodsInUse() || !s.pod && read.InUse() {
		return read, err
	}
	if tallied, err := s.tallied(name); s.pod && tallied && err == nil {
		return read, nil
	}
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	if read, err = s.namespaces.LiveNamespace(ctx, name); err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return read, nil
}

// Limits of what expressions may take in one review. The cost is the same on every machine: half a
// second of one that is not busy. The time is the backstop for one object. All evaluations of a
// review end after twice that, well within the five seconds that the API server waits.
const (
	reviewCost        = 5 * expression.CostLimit
	defaultEvaluating = 1500 * time.Millisecond
)

// reviewKey is the key under which a context has the one that ends the evaluations of its review.
type reviewKey struct{}

// limited bounds what the expressions of all of a review may cost, and how long they may take: a
// review may need the context of several objects, and reads in between.
func (w *Webhooks) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	until, cancel := context.WithTimeout(ctx, 2*w.evaluating)
	limit := expression.Limited(ctx, reviewCost, "the expressions for this object cost more than one review may")
	return context.WithValue(limit, reviewKey{}, until), cancel
}

// scopeOf returns the context of an object, given as facts and as decoded JSON. See [inUse] for
// bare objects.
func (w *Webhooks) scopeOf(ctx context.Context, facts *policy.Facts, object map[string]any, bare bool) (*policy.Scope, error) {
	var from platform.Source = w.source
	if bare {
		from = &inUse{w.source, facts.IsPod(), facts.Profile.Kind.GroupKind()}
	}
	of := platform.Whole(facts, object)
	of.Evaluating = w.evaluating
	of.Until, _ = ctx.Value(reviewKey{}).(context.Context)
	found, err := platform.ContextOf(ctx, from, of)
	if err != nil {
		return nil, err
	}
	for _, failure := range found.Failures {
		w.metrics.unevaluated.Inc()
		w.log.V(1).Info("policy could not be evaluated: what it speaks of is kept", "reason", failure.Error())
	}
	found.AnnotationsOnly, found.Off = w.annotationsOnly, w.options.Controller.Off
	found.Protected = policy.Protects(w.options.Controller.Protect, facts.Namespace)
	return &found.Scope, nil
}

// bare reports whether an object says nothing to Curfew by itself, so that the webhook
// configurations send its CREATE only where the namespace is in use (manifests/webhook). Templates
// are not looked into: for their kinds nothing is concluded.
func bare(facts *policy.Facts) bool {
	if len(facts.Profile.Templates) > 0 || facts.Profile.State == nil || facts.NativeTTL.Set {
		return false
	}
	return !slices.ContainsFunc(policy.ObjectKeys, func(key string) bool {
		_, annotation := facts.Annotations[key]
		_, label := facts.Labels[key]
		return annotation || label
	})
}
