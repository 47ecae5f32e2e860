package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/references"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// validator asks the rules about objects.
type validator struct{ *Webhooks }

// Handle implements [admission.Handler].
func (v validator) Handle(ctx context.Context, review admission.Request) admission.Response {
	return v.handle(ctx, &review, v.validate)
}

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

// LivePods reads Pods from the API server.
type LivePods struct{ Reader client.Reader }

// Pod implements [PodGetter].
func (p LivePods) Pod(ctx context.Context, namespace, name string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	pod := &corev1.Pod{}
	if err := p.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("from the API server: %w", err)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
}

// validateBinding judges the change of a Binding to its Pod: the API server copies annotations and
// labels. Schedulers send annotations that the Pod already has, so the Pod must be read. Answers
// show what it contains, and anyone may have posted the review: the UID proves that they know the
// Pod. Without it the Binding is denied, since otherwise it would change the Pod unreviewed.
func (w *Webhooks) validateBinding(ctx context.Context, request *request, now time.Time) admission.Response {
	_, aliased := request.facts.Labels[wellknown.LabelKyvernoTTL]
	if w.settings.Pods == nil || !carriesKey(request.facts) && !(aliased && w.options.KyvernoLabel) {
		return untouched()
	}
	if request.facts.UID == "" {
		return unboundPod()
	}
	name := cmp.Or(request.review.Name, request.facts.Name)
	pod, err := w.readPod(ctx, request.facts.Namespace, name)
	if err != nil {
		return w.failed(request.review, fmt.Sprintf("curfew could not read Pod %q, which the Binding changes", name), err)
	}
	if uid, _, _ := unstructured.NestedString(pod, "metadata", "uid"); uid != string(request.facts.UID) {
		return untouched() // The API server refuses the Binding.
	}
	bound := *request
	bound.kind, bound.resource, bound.operation = policy.PodProfile.Kind, podResource, admissionv1.Update
	profile := w.Profiles().For(bound.kind)
	bound.old, bound.oldFacts = pod, policy.FactsOfObjectContext(ctx, profile, pod)
	bound.object = merged(merged(pod, "annotations", request.facts.Annotations), "labels", request.facts.Labels)
	bound.facts = policy.FactsOfObjectContext(ctx, profile, bound.object)
	return w.validate(ctx, &bound, now)
}

// merged returns a copy of an object with more annotations or labels.
func merged(object map[string]any, where string, more map[string]string) map[string]any {
	if len(more) == 0 {
		return object
	}
	before, _ := object["metadata"].(map[string]any)
	out, metadata := maps.Clone(object), map[string]any{}
	maps.Copy(metadata, before)
	had, _ := before[where].(map[string]any)
	entries := make(map[string]any, len(had)+len(more))
	maps.Copy(entries, had)
	for key, value := range more {
		entries[key] = value
	}
	metadata[where], out["metadata"] = entries, metadata
	return out
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
	of := profiles.For(kind)
	if w.settings.Owners == nil || !of.KnowsTemplate(facts.Profile.Kind.GroupKind()) {
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
	read, err := w.readOwner(ctx, facts.Namespace, owner)
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

func (w *Webhooks) readPod(ctx context.Context, namespace, name string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	if err := w.podReads.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer w.podReads.Release(1)
	return w.settings.Pods.Pod(ctx, namespace, name)
}

func (w *Webhooks) readOwner(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error) {
	if err := w.ownerReads.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer w.ownerReads.Release(1)
	return w.settings.Owners.Read(ctx, namespace, owner)
}
