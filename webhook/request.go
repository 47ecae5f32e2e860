package webhook

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/webhook/wire"
)

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// request is an admission request, decoded once and read into facts.
type request struct {
	review    *wire.Review
	operation admissionv1.Operation
	user      rules.User
	kind      schema.GroupVersionKind
	// resource is what the user would delete.
	resource metav1.GroupVersionResource
	// object and old are the JSON form of the objects, without managedFields; old is nil unless the
	// operation is UPDATE.
	object, old     map[string]any
	facts, oldFacts *policy.Facts
}

func kindOf(review *wire.Review) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: review.Kind.Group, Version: review.Kind.Version, Kind: review.Kind.Kind}
}

// decode reads the objects of a request. Only CREATE and UPDATE are reviewed; other operations have
// no facts.
func (w *Webhooks) decode(ctx context.Context, review *wire.Review) (*request, error) {
	out := &request{
		review:    review,
		operation: admissionv1.Operation(review.Operation),
		user:      rules.User{Name: review.Username},
		kind:      kindOf(review),
		resource:  review.Resource,
	}
	if !out.reviewed() {
		return out, nil
	}
	profile := w.Profiles().For(out.kind)
	var err error
	if out.object, out.facts, err = out.read(ctx, profile, "request.object", &review.Object); err != nil {
		return nil, err
	}
	if out.operation == admissionv1.Update {
		out.old, out.oldFacts, err = out.read(ctx, profile, "request.oldObject", &review.Old)
	}
	return out, err
}

func (r *request) read(ctx context.Context, profile *policy.Profile, field string, object *wire.Object) (map[string]any, *policy.Facts, error) {
	if object.Raw == "" {
		return nil, nil, fmt.Errorf("%s is absent: a %s carries one", field, r.operation)
	}
	if object.Fields == nil {
		return nil, nil, fmt.Errorf("%s is null: a %s carries one", field, r.operation)
	}
	facts := policy.FactsOfObjectContext(ctx, profile, object.Fields)
	// On CREATE the namespace may only be in the URL. For a Namespace, the request repeats its name
	// there.
	facts.Namespace = r.review.Namespace
	if r.kind.GroupKind() == namespaceKind.GroupKind() {
		facts.Namespace = ""
	}
	if r.creating() {
		// The API server drops it after admission. A server-side apply that creates may carry one.
		facts.Deleting, facts.DeletingSince = false, time.Time{}
	}
	return object.Fields, facts, nil
}

// reviewed reports whether the request can concern Curfew. Webhook rules send no others. An update
// of a subresource, such as the status, may change metadata; a Scale is not the object itself.
func (r *request) reviewed() bool {
	switch r.operation {
	case admissionv1.Create:
		return r.review.SubResource == "" || r.kind == bindingKind
	case admissionv1.Update:
		return r.kind.GroupKind() != scaleKind
	default:
		return false
	}
}

var scaleKind = schema.GroupKind{Group: "autoscaling", Kind: "Scale"}

func (r *request) creating() bool { return r.operation == admissionv1.Create }
