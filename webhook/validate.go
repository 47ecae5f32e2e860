package webhook

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// validate asks the rules about a new or changed object.
func (w *Webhooks) validate(ctx context.Context, request *request, now time.Time) answer {
	if request.kind == bindingKind {
		return w.validateBinding(ctx, request, now)
	}
	if request.facts.IsNamespace() { // Kyverno's label is sent here.
		return w.validateNamespace(ctx, request, now)
	}
	if request.facts.Deleting {
		return untouched()
	}
	scope, err := w.scopeOf(ctx, request.facts, request.object, request.creating() && bare(request.facts))
	if err != nil {
		return unreadable(request.facts, err)
	}
	scope.Creating = request.creating()
	snapshot := w.source.store.Snapshot()
	review := &rules.Request{Scope: scope, Outer: snapshot.BoundingUsers(request.facts.Profile), Below: snapshot.BoundingKind}
	if request.creating() {
		if review.Filled, err = w.scopeBeforeDefaults(ctx, request, scope); err != nil {
			return unreadable(request.facts, err)
		}
	}
	effective := policy.Resolve(request.facts, scope)
	review.Effective = &effective
	return w.decide(ctx, request, review, now)
}

// scopeBeforeDefaults returns the context of a new object before its defaults were filled in, if
// its stamps do not result from its present context: a policy may match by the field that it fills
// in. It returns nil if they do not result from that either.
func (w *Webhooks) scopeBeforeDefaults(ctx context.Context, request *request, scope *policy.Scope) (*policy.Scope, error) {
	_, forged := policy.Attested(request.facts, scope)
	if len(forged) == 0 {
		return nil, nil
	}
	object := runtime.DeepCopyJSON(request.object)
	for _, path := range policy.Stamped(request.facts) {
		if len(path) > 1 {
			unstructured.RemoveNestedField(object, path...)
		}
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	facts := policy.FactsOfObjectContext(ctx, request.facts.Profile, object)
	facts.Namespace = request.facts.Namespace
	filled, err := w.scopeOf(ctx, facts, object, false)
	if err != nil {
		return nil, err
	}
	filled.Creating = true
	if _, left := policy.Attested(request.facts, filled); len(left) == len(forged) {
		return nil, nil
	}
	return filled, nil
}

// validateNamespace asks the rules about the annotations and the TTL label of a namespace. The
// bounds of policies are outer bounds of its own, and policies that match Namespaces bound the
// label.
func (w *Webhooks) validateNamespace(ctx context.Context, request *request, now time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	scope, err := w.scopeOf(ctx, request.facts, request.object, false)
	if err != nil {
		return unreadable(request.facts, err)
	}
	review := &rules.Request{Scope: scope, Outer: w.source.store.Snapshot().Bounding}
	return w.decide(ctx, request, review, now)
}

// decide completes the review with the request, and asks the rules.
func (w *Webhooks) decide(ctx context.Context, request *request, review *rules.Request, now time.Time) answer {
	operation := rules.Update
	if request.creating() {
		operation = rules.Create
	}
	review.Operation, review.User, review.Options, review.Now = operation, request.user, w.options, now
	review.Object, review.Old, review.Facts, review.OldFacts = request.object, request.old, request.facts, request.oldFacts
	access, err := w.access(ctx, review, request.resource, request.review.UserInfo)
	if err != nil { // An error would let the request pass where the webhook fails open.
		return unanswered("curfew could not find out whether you may delete this", err)
	}
	review.Access, review.Reached = access, w.reached(ctx, review)
	decision := rules.Review(review)
	w.admitChild(ctx, review, decision)
	return decided(decision, request.user.IsPerson())
}
