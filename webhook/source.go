package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/wellknown"
)

// source is the [platform.Source] of admission.
type source struct {
	store      *platform.Store
	namespaces NamespaceGetter
	runtimes   RuntimeGetter // nil if none is read
	tallies    TallyGetter   // nil if no Pod is counted
}

// liveReadTimeout leaves time for an answer within the five seconds that the API server waits.
const liveReadTimeout = 2 * time.Second

// Snapshot implements [platform.Source].
func (s *source) Snapshot(context.Context) (*platform.Snapshot, error) {
	return s.store.Snapshot(), nil
}

// Namespace implements [platform.Source].
func (s *source) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
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
func (s *source) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
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
func (s *inUse) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
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

// Limits of the expressions in one review. The cost is the same on every machine: half a second of
// one that is not busy. The time is the backstop for one object. All evaluations of a review end
// after twice that, well within the five seconds that the API server waits.
const (
	reviewCost        = 5 * expression.CostLimit
	defaultEvaluating = 1500 * time.Millisecond
)

// reviewKey is the key under which a context has the one that ends the evaluations of its review.
type reviewKey struct{}

// limited bounds the cost and the time of all expressions in a review: a review may need the
// context of several objects, with reads in between.
func (w *Webhooks) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	until, cancel := context.WithTimeout(ctx, 2*w.evaluating)
	limit := expression.Limited(ctx, reviewCost, "the expressions for this object cost more than one review may")
	return context.WithValue(limit, reviewKey{}, until), cancel
}

// scopeOf returns the context of an object. See [inUse] for bare objects.
func (w *Webhooks) scopeOf(ctx context.Context, subject *platform.Subject, bare bool) (*resolution.Scope, error) {
	var from platform.Source = w.source
	facts := subject.Facts
	if bare {
		from = &inUse{w.source, facts.IsPod(), facts.Profile.Kind.GroupKind()}
	}
	subject.Evaluating = w.evaluating
	subject.Until, _ = ctx.Value(reviewKey{}).(context.Context)
	found, err := platform.ContextOf(ctx, from, subject)
	if err != nil {
		return nil, err
	}
	for _, failure := range found.Failures {
		w.metrics.unevaluated.Inc()
		w.log.V(1).Info("policy could not be evaluated: the objects that it matches are kept", "reason", failure.Error())
	}
	found.AnnotationsOnly, found.Off = w.settings.AnnotationsOnly, w.options.Controller.Off
	found.Protected = judging.Protects(w.options.Controller.Protect, facts.Namespace)
	return &found.Scope, nil
}

// bare reports whether an object says nothing to Curfew by itself, so that the webhook
// configurations send its CREATE only where the namespace is in use (manifests/webhook). Templates
// are not looked into: for their kinds nothing is concluded.
func bare(facts *policy.Facts) bool {
	if len(facts.Profile.Templates) > 0 || facts.Profile.State == nil || facts.NativeTTL.Set {
		return false
	}
	return !carriesKey(facts)
}

// carriesKey reports whether an object has one of Curfew's keys.
func carriesKey(facts *policy.Facts) bool {
	return slices.ContainsFunc(wellknown.ObjectKeys, func(key string) bool {
		_, annotation := facts.Annotations[key]
		_, label := facts.Labels[key]
		return annotation || label
	})
}

// stampRuntime keeps since when a runtime has its TTL. Its author cannot change that: with an
// earlier time the TTL would delete objects that finished before (S6). A new runtime has had no TTL
// before.
func (w *Webhooks) stampRuntime(ctx context.Context, request *request, now time.Time) []resolution.Assignment {
	profile := request.facts.Profile
	if profile.RuntimeOf == "" {
		return nil
	}
	present, before := request.facts.Annotations[wellknown.AnnotationDefaultSince], ""
	if !request.creating() {
		before = request.oldFacts.Annotations[wellknown.AnnotationDefaultSince]
	}
	if resolution.RuntimeHash(request.object, profile.RuntimeTTLs) != "" {
		now = w.stampTime(ctx, request, now)
	}
	want := resolution.StampRuntime(request.object, profile.RuntimeTTLs, before, now)
	if want == present {
		return nil
	}
	return []resolution.Assignment{keep("annotations", wellknown.AnnotationDefaultSince, want)}
}

// countTimeout bounds the count of objects: it is for a warning, and the API server waits five
// seconds for all of a review.
const countTimeout = time.Second

// reached counts the objects that the request lets the TTL of a runtime reach by backfill. One list
// is read at a time (S9): a request that comes meanwhile gets no number.
func (w *Webhooks) reached(ctx context.Context, review *rules.Request) rules.Reached {
	profile := review.Facts.Profile
	if w.settings.Objects == nil || profile.UsedBy == nil || !rules.Backfills(review) || !w.counting.TryLock() {
		return rules.Reached{}
	}
	defer w.counting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	users := profile.UsedBy
	refers := w.source.store.Snapshot().RuntimeOf(users.Kind.GroupKind())
	if refers == nil {
		return rules.Reached{}
	}
	var out rules.Reached
	var err error
	out.More, err = w.settings.Objects.Each(ctx, users.Kind.GroupVersion().WithResource(users.Resource), review.Facts.Namespace,
		func(object map[string]any) {
			facts := policy.FactsOfObjectContext(ctx, users, object)
			reference, err := refers.Reference(facts.Namespace, object)
			if err != nil || reference == nil || reference.Name != review.Facts.Name || reference.Namespace != review.Facts.Namespace ||
				reference.Kind.GroupKind() != profile.Kind.GroupKind() {
				return
			}
			effective := resolution.Resolve(facts, &resolution.Scope{Runtime: reference.Policy(review.Object, profile.RuntimeTTLs)})
			if judging.Judge(facts, &effective, review.Now).Backfill {
				out.Count++
			}
		})
	if err != nil {
		w.log.V(1).Info("could not count what backfill reaches", "kind", users.Kind.Kind, "reason", err.Error())
		out.More = true
	}
	out.Known = out.Count > 0 || !out.More
	return out
}

// tallied reports whether a PodTally of a namespace counts Pods.
func (s *source) tallied(namespace string) (bool, error) {
	if s.tallies == nil {
		return false, nil
	}
	all, err := s.tallies.In(namespace)
	return slices.ContainsFunc(all, func(each *tally.Tally) bool { return !each.Deleting }), err
}

// hold gives a new Pod the finalizer of the tally that counts it (see [tally.Hold]). The controller
// adopts a Pod that is created before the cache knows its tally.
func (w *Webhooks) hold(pod *policy.Facts) ([]resolution.Assignment, bool) {
	if !pod.IsPod() || w.source.tallies == nil {
		return nil, false
	}
	tallies, err := w.source.tallies.In(pod.Namespace)
	if err != nil {
		w.log.V(1).Info("a new Pod is left to the controller to adopt", "namespace", pod.Namespace, "reason", err.Error())
		return tally.Uncounted(pod), false
	}
	return tally.Hold(tallies, pod)
}

// unfilled takes out of a new object what an earlier call filled in (see [resolution.Unfilled]), and
// returns its facts, the object and the fields that it took out.
func (w *Webhooks) unfilled(ctx context.Context, request *request, now time.Time) (*policy.Facts, map[string]any, []fieldpath.FieldPath, error) {
	claimed := resolution.WithoutDefaults(request.facts)
	if len(claimed) == 0 {
		return request.facts, request.object, nil, nil
	}
	without := platform.Without(request.object, claimed)
	subject := platform.Whole(request.facts, without)
	subject.Giving = true
	// The earlier call may have been for a bare object.
	giving, err := w.scopeOf(ctx, subject, bare(policy.FactsOfObjectContext(ctx, request.facts.Profile, without)))
	if err != nil {
		return nil, nil, nil, err
	}
	giving.Creating = true
	facts, taken := resolution.Unfilled(request.facts, giving, now)
	return facts, platform.Without(request.object, taken), taken, nil
}

// stampTime is the API server's time, or zero if it is not known.
func (w *Webhooks) stampTime(ctx context.Context, request *request, now time.Time) time.Time {
	if w.settings.ServerTime == nil {
		return now
	}
	t, err := w.settings.ServerTime(ctx)
	if err != nil {
		w.log.Info("left a stamp to the controller", "kind", request.kind.Kind, "object",
			klog.KRef(request.facts.Namespace, request.facts.Name), "reason", err.Error())
		return time.Time{}
	}
	return t
}

// keep assigns a value, or removes the key if the value is empty.
func keep(where, key, value string) resolution.Assignment {
	assignment := resolution.Assignment{Path: fieldpath.FieldPath{"metadata", where, key}}
	if value != "" {
		assignment.Value = value
	}
	return assignment
}
