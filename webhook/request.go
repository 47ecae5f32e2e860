package webhook

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// request is an admission request, decoded once and read into facts.
type request struct {
	operation   admissionv1.Operation
	subresource string
	user        rules.User
	userInfo    authenticationv1.UserInfo
	resource    metav1.GroupVersionResource
	// raw is the object as the API server sent it, to which a patch has to apply.
	raw []byte
	// oldRaw is the old object; empty unless the operation is UPDATE.
	oldRaw []byte
	// object and old are its JSON form; old is nil unless the operation is UPDATE.
	object, old     map[string]any
	facts, oldFacts *policy.Facts
}

func kindOf(req *admission.Request) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: req.Kind.Group, Version: req.Kind.Version, Kind: req.Kind.Kind}
}

// decode reads the objects of a request. Only CREATE and UPDATE carry what is reviewed; the others have no facts.
func (w *Webhooks) decode(req *admission.Request) (*request, error) {
	if req.UID == "" {
		return nil, errors.New("the AdmissionReview has no request.uid: send one of admission.k8s.io/v1 with a request")
	}
	out := &request{
		operation:   req.Operation,
		subresource: req.SubResource,
		user:        rules.User{Name: req.UserInfo.Username},
		userInfo:    req.UserInfo,
		resource:    req.Resource,
		raw:         req.Object.Raw,
	}
	if !out.reviewed() {
		return out, nil
	}
	profile := w.Profiles().For(kindOf(req))
	var err error
	if out.object, out.facts, err = read(profile, req, "request.object", req.Object.Raw); err != nil {
		return nil, err
	}
	if req.Operation == admissionv1.Update {
		out.oldRaw = req.OldObject.Raw
		out.old, out.oldFacts, err = read(profile, req, "request.oldObject", req.OldObject.Raw)
	}
	return out, err
}

func read(profile *policy.Profile, req *admission.Request, field string, raw []byte) (map[string]any, *policy.Facts, error) {
	if len(raw) == 0 {
		return nil, nil, fmt.Errorf("%s is absent: a %s carries one", field, req.Operation)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, nil, fmt.Errorf("%s is no JSON object: %w", field, err)
	}
	if object == nil {
		return nil, nil, fmt.Errorf("%s is null: a %s carries one", field, req.Operation)
	}
	facts := policy.FactsOfObject(profile, object)
	// At CREATE the object may leave its namespace to the URL. For a Namespace, which is in none, the request repeats its name there.
	facts.Namespace = req.Namespace
	if kindOf(req).GroupKind() == namespaceKind.GroupKind() {
		facts.Namespace = ""
	}
	return object, facts, nil
}

// reviewed reports whether the request is of a kind that policy has an opinion on. Webhook rules send no others.
func (r *request) reviewed() bool {
	return r.subresource == "" && (r.operation == admissionv1.Create || r.operation == admissionv1.Update)
}

func (r *request) creating() bool { return r.operation == admissionv1.Create }
