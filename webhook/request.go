package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// request is an admission request, decoded once and read into facts.
type request struct {
	review    *admission.Request
	operation admissionv1.Operation
	user      rules.User
	kind      schema.GroupVersionKind
	// resource is the resource that the user would delete.
	resource metav1.GroupVersionResource
	// object and old are the JSON form of the objects, without managedFields; old is nil unless the
	// operation is UPDATE.
	object, old     map[string]any
	facts, oldFacts *policy.Facts
}

// errUndecoded is why an object is denied: it would pass unreviewed otherwise (S9).
var errUndecoded = errors.New("the object cannot be decoded")

func (r *request) read(ctx context.Context, profile *policy.Profile, field string, raw []byte) (map[string]any, *policy.Facts, error) {
	if len(raw) == 0 {
		return nil, nil, fmt.Errorf("%s is absent: a %s carries one", field, r.operation)
	}
	var object map[string]any
	if err := json.Unmarshal(withoutManagedFields(raw), &object); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", errUndecoded, field, err)
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields") // One that was not cut: where it stands twice, or with spaces.
	}
	facts := policy.FactsOfObjectContext(ctx, profile, object)
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
	return object, facts, nil
}

// withoutManagedFields cuts metadata.managedFields out of the text of an object. They are half of it,
// and no rule reads them: to decode them takes 10% of the time of a review.
func withoutManagedFields(raw []byte) []byte {
	depth, quoted, within, from := 0, false, false, -1
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			within = within || depth == 1 && bytes.HasPrefix(raw[i:], []byte(`"metadata":{`))
			if within && depth == 2 && bytes.HasPrefix(raw[i:], []byte(`"managedFields":[`)) && raw[i-1] == ',' {
				from = i - 1
			}
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if from >= 0 && depth == 2 {
				return append(raw[:from:from], raw[i+1:]...)
			}
			within = within && depth > 1
		}
	}
	return raw
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

func (r *request) creating() bool { return r.operation == admissionv1.Create }

func kindOf(review *admission.Request) schema.GroupVersionKind {
	return schema.GroupVersionKind(review.Kind)
}

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// otherKind counts reviews of all kinds that Curfew does not know.
var otherKind = schema.GroupKind{Kind: "other"}

var scaleKind = schema.GroupKind{Group: "autoscaling", Kind: "Scale"}

var (
	bindingKind = corev1.SchemeGroupVersion.WithKind("Binding")
	podResource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
)
