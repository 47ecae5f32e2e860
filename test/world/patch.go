package world

import (
	"encoding/json"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// patch carries out a patch.
func (w *World) patch(r *Request, s *store) (*unstructured.Unstructured, error) {
	if r.PatchType == types.StrategicMergePatchType && s.Custom {
		return nil, unknownFormat()
	}
	before := s.objects[keyOf(r.Namespace, r.Name)]
	if before == nil && r.PatchType != types.ApplyPatchType {
		return nil, notFound(r)
	}
	object, err := patched(r, before)
	if err != nil {
		return nil, err
	}
	if err := r.place(object); err != nil {
		return nil, err
	}
	if before == nil {
		return w.createBy(r, s, object)
	}
	return w.replace(r, s, before, object)
}

// patched applies a patch. A server-side apply is treated as a merge: the only one of Curfew is
// forced, by the only manager of its fields.
func patched(r *Request, before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	old := []byte("{}")
	if before != nil {
		old, _ = json.Marshal(before.Object) // It came from JSON.
	}
	var text []byte
	var err error
	switch r.PatchType {
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(r.Patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if text, err = patch.Apply(old); err != nil {
			return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	case types.MergePatchType, types.ApplyPatchType:
		if text, err = jsonpatch.MergePatch(old, r.Patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case types.StrategicMergePatchType:
		typed, unknown := scheme.Scheme.New(r.Resource.GroupVersionKind())
		if unknown != nil {
			return nil, unknownFormat()
		}
		if text, err = strategicpatch.StrategicMergePatch(old, r.Patch, typed); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, apierrors.NewBadRequest("unknown Content-Type header for patch: " + string(r.PatchType))
	}
	out := map[string]any{}
	if err := utiljson.Unmarshal(text, &out); err != nil { // Whole numbers become int64.
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &unstructured.Unstructured{Object: out}, nil
}

// unknownFormat is the answer to a strategic merge patch of a custom resource.
func unknownFormat() error {
	message := "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, " +
		"application/merge-patch+json, application/apply-patch+yaml"
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 415, Reason: metav1.StatusReasonUnsupportedMediaType, Message: message}}
}
