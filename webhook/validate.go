package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/references"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// validate asks the rules about a new or changed object.
func (w *Webhooks) validate(ctx context.Context, request *request, now time.Time) admission.Response {
	if request.kind == bindingKind {
		return w.validateBinding(ctx, request, now)
	}
	if request.facts.IsNamespace() { // Kyverno's label is sent here.
		return w.validateNamespace(ctx, request, now)
	}
	if request.facts.Deleting {
		return untouched()
	}
	scope, err := w.scopeOf(ctx, platform.Whole(request.facts, request.object), request.creating() && bare(request.facts))
	if err != nil {
		return w.unreadable(request, err)
	}
	scope.Creating = request.creating()
	snapshot := w.source.store.Snapshot()
	review := &rules.Request{Scope: scope, Outer: snapshot.BoundingUsers(request.facts.Profile), Below: snapshot.BoundingKind}
	if review.Filled, err = w.filled(ctx, request, scope, now); err != nil {
		return w.unreadable(request, err)
	}
	review.Effective = new(resolution.Resolve(request.facts, scope))
	return w.decide(ctx, request, review, now)
}

// filled returns the context in which the defaults of an object were filled in by this request, where
// its stamps do not result from the present one: a policy may match by a field that it fills in.
func (w *Webhooks) filled(ctx context.Context, request *request, scope *resolution.Scope, now time.Time) (*resolution.Scope, error) {
	if !request.creating() && !resolution.Marked(request.oldFacts, request.facts) {
		return nil, nil
	}
	if _, forged := resolution.Attested(request.facts, scope); len(forged) == 0 {
		return nil, nil
	}
	facts, object, _, err := w.unfilled(ctx, request, now)
	if err != nil {
		return nil, err
	}
	return w.scopeOf(ctx, platform.Whole(facts, object), false)
}

// decide completes the review with the request, and asks the rules.
func (w *Webhooks) decide(ctx context.Context, request *request, review *rules.Request, now time.Time) admission.Response {
	operation := rules.Update
	if request.creating() {
		operation = rules.Create
	}
	review.Operation, review.User, review.Options, review.Now = operation, request.user, w.options, now
	review.Object, review.Old, review.Facts, review.OldFacts = request.object, request.old, request.facts, request.oldFacts
	access, err := w.access(ctx, review, request.resource, request.review.UserInfo)
	if err != nil { // An error would let the request pass where the webhook fails open.
		return unanswered(noAccess, err)
	}
	review.Access, review.Reached = access, w.reached(ctx, review)
	decision := rules.Review(review)
	w.admitChild(ctx, review, decision)
	return decided(decision, request.user.IsPerson())
}

// validateBinding judges the change of a Binding to its Pod: the API server copies annotations and
// labels. Schedulers send annotations that the Pod already has, so the Pod must be read. Answers
// show what it contains, and anyone may have posted the review: the UID proves that they know the
// Pod. Without it the Binding is denied, since otherwise it would change the Pod unreviewed.
func (w *Webhooks) validateBinding(ctx context.Context, request *request, now time.Time) admission.Response {
	_, aliased := request.facts.Labels[wellknown.LabelKyvernoTTL]
	if w.settings.Owners == nil || !carriesKey(request.facts) && !(aliased && w.options.KyvernoLabel) {
		return untouched()
	}
	if request.facts.UID == "" {
		return unboundPod()
	}
	name := cmp.Or(request.review.Name, request.facts.Name)
	pod, err := w.read(ctx, w.podReads, request.facts.Namespace,
		&metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: request.facts.UID})
	if apierrors.IsRequestEntityTooLargeError(err) {
		return tooDense()
	}
	if err != nil {
		return w.failed(request.review, fmt.Sprintf("curfew could not read Pod %q, which the Binding changes", name), err)
	}
	if pod == nil { // The API server refuses the Binding.
		return untouched()
	}
	bound := *request
	bound.kind, bound.resource, bound.operation = policy.PodProfile.Kind, podResource, admissionv1.Update
	profile := w.Profiles().For(bound.kind)
	bound.old, bound.oldFacts = pod, policy.FactsOfObjectContext(ctx, profile, pod)
	metadata, _ := pod["metadata"].(map[string]any)
	changed := &unstructured.Unstructured{Object: maps.Clone(pod)}
	changed.Object["metadata"] = maps.Clone(metadata)
	changed.SetAnnotations(labels.Merge(changed.GetAnnotations(), request.facts.Annotations))
	changed.SetLabels(labels.Merge(changed.GetLabels(), request.facts.Labels))
	bound.object = changed.Object
	bound.facts = policy.FactsOfObjectContext(ctx, profile, bound.object)
	return w.validate(ctx, &bound, now)
}

// served reports whether the API server serves a kind. Where a product is not installed, a tenant
// may own its controller's account, and make up an owner that is never collected.
func (w *Webhooks) served(kind schema.GroupKind) bool {
	return references.BuiltIn(kind.Group) || w.source.store.Snapshot().Definition(kind) != nil
}

// admitChild turns the denials of an object that a known controller creates into warnings, if the
// owner has the denied values, or if that cannot be known.
func (w *Webhooks) admitChild(ctx context.Context, review *rules.Request, decision *rules.Decision) {
	if decision.Allowed() {
		return
	}
	facts, owner, profiles := review.Facts, review.Facts.Owner, w.Profiles()
	// The API server accepts no reference without a UID. A posted review may have one: it must not
	// find out the content of an object by its name alone.
	if !review.ByController(profiles) || owner.UID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	if !review.ByController(policy.Profiles{}) && !w.served(kind.GroupKind()) {
		return // An account of a profile alone.
	}
	profile := profiles.For(kind)
	if w.settings.Owners == nil || !profile.KnowsTemplate(facts.Profile.Kind.GroupKind()) {
		review.AdmitChild(decision, nil)
		return
	}
	parts := []string{facts.Namespace, owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}
	for _, denial := range decision.Denials() {
		parts = append(parts, denial.Field, denial.Value)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%q", parts)) // A value may be as long as an object.
	if _, known := w.inherited.Get(key); known {
		review.AdmitChild(decision, nil)
		return
	}
	read, err := w.read(ctx, w.ownerReads, facts.Namespace, owner)
	if err != nil {
		w.log.V(1).Info("the owner of a new object could not be read, so that the object is admitted", "kind", owner.Kind, "reason", err.Error())
		review.AdmitChild(decision, nil)
		return
	}
	review.AdmitChild(decision, func(denial rules.Finding) bool { return policy.CarriedBy(read, review.Object, denial.Field) })
	if decision.Allowed() {
		w.inherited.Add(key, true, keepAnswers)
	}
}

// read reads the owner of an object, or the Pod of a Binding.
func (w *Webhooks) read(ctx context.Context, slots *semaphore.Weighted, namespace string, reference *metav1.OwnerReference) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	if err := slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer slots.Release(1)
	return w.settings.Owners.Read(ctx, namespace, reference)
}
