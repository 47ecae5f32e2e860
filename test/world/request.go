package world

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is a request to the API server.
type Request struct {
	// Client is the process that sent it, and User the user that it acts as. Sent is when, by the API
	// server's clock.
	Client, User string
	Sent         time.Time
	// Verb is get, list, watch, create, update, patch, delete, or "" for a request that is not about a
	// resource.
	Verb string
	// Resource is nil if it is not served.
	Resource                     *Resource
	Namespace, Name, Subresource string
	// Object is the body of a create or an update.
	Object *unstructured.Unstructured
	// Patch is the body of a patch.
	Patch     []byte
	PatchType types.PatchType
	// Options of a DELETE.
	Options *metav1.DeleteOptions

	path    string
	query   url.Values
	partial bool // the answer has metadata only
	created bool // an update or a patch created the object
	bad     error
}

// dryRun reports whether nothing may change.
func (r *Request) dryRun() bool {
	return r.query.Get("dryRun") != "" || r.Options != nil && len(r.Options.DryRun) > 0
}

// read parses an HTTP request.
func (w *World) read(request *http.Request, c *Client) (*Request, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		_ = request.Body.Close()
	}
	r := &Request{Client: c.name, User: c.user, Sent: w.Now(), path: request.URL.Path, query: request.URL.Query()}
	if as := request.Header.Get("Impersonate-User"); as != "" {
		r.User = as
	}
	r.partial = strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")
	w.route(r)
	if r.Resource == nil {
		return r, nil
	}
	switch request.Method {
	case http.MethodGet:
		r.Verb = "get"
		if r.Name == "" {
			r.Verb = "list"
		}
		if r.query.Get("watch") == "true" || r.query.Get("watch") == "1" {
			r.Verb = "watch"
		}
	case http.MethodPost:
		r.Verb, r.bad = "create", r.decode(body)
	case http.MethodPut:
		r.Verb, r.bad = "update", r.decode(body)
	case http.MethodPatch:
		r.Verb, r.Patch, r.PatchType = "patch", body, types.PatchType(strings.Split(request.Header.Get("Content-Type"), ";")[0])
	case http.MethodDelete:
		r.Verb, r.bad = "delete", r.decodeOptions(body)
	}
	return r, nil
}

// route reads a path such as /apis/batch/v1/namespaces/ci/jobs/build/status.
func (w *World) route(r *Request) {
	parts := strings.Split(strings.Trim(r.path, "/"), "/")
	var resource schema.GroupVersionResource
	switch {
	case len(parts) > 2 && parts[0] == "api":
		resource.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		resource.Group, resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	resource.Resource = parts[0]
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stores[resource.GroupResource()]
	if s == nil || s.Version != resource.Version || r.Namespace != "" && !s.Namespaced {
		return
	}
	r.Resource = &s.Resource
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
}

// decode reads an object in JSON or protobuf.
func (r *Request) decode(body []byte) error {
	if len(body) > 0 && body[0] == '{' {
		content := map[string]any{}
		if err := utiljson.Unmarshal(body, &content); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		r.Object = &unstructured.Unstructured{Object: content}
		return nil
	}
	typed, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	r.Object = &unstructured.Unstructured{Object: content}
	return err
}

func (r *Request) decodeOptions(body []byte) error {
	r.Options = &metav1.DeleteOptions{}
	if policy := metav1.DeletionPropagation(r.query.Get("propagationPolicy")); policy != "" {
		r.Options.PropagationPolicy = &policy
	}
	if raw, ok := strings.CutPrefix(string(body), "k8s\x00"); ok {
		var unknown runtime.Unknown
		if err := errors.Join(unknown.Unmarshal([]byte(raw)), r.Options.Unmarshal(unknown.Raw)); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return nil
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, r.Options); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if errs := validation.ValidateDeleteOptions(r.Options); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}

// serve answers a request.
func (w *World) serve(ctx context.Context, c *Client, r *Request) *http.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Resource == nil {
		return w.document(r)
	}
	if r.bad != nil {
		return w.refuse(r.bad)
	}
	switch r.Verb {
	case "watch":
		return w.watch(ctx, c, r)
	case "list":
		return w.list(r)
	}
	object, err := w.do(r)
	if err != nil {
		return w.refuse(err)
	}
	switch {
	case r.Verb == "create", r.created:
		return w.answer(http.StatusCreated, r.shape(object))
	case object == nil:
		return w.answer(http.StatusOK, deletedStatus(r))
	}
	return w.answer(http.StatusOK, r.shape(object))
}

// do carries out a request for one object. A DELETE that removes the object returns nil.
func (w *World) do(r *Request) (*unstructured.Unstructured, error) {
	if r.Resource.Group == "authorization.k8s.io" || r.Resource.Group == "authentication.k8s.io" {
		return w.review(r), nil
	}
	s := w.stores[r.Resource.GroupResource()]
	if s.Namespaced && r.Namespace == "" {
		return nil, apierrors.NewBadRequest("namespace is required")
	}
	switch r.Verb {
	case "create":
		return w.create(r, s)
	case "update":
		return w.update(r, s)
	case "patch":
		return w.patch(r, s)
	case "delete":
		return w.delete(r, s)
	}
	object := s.objects[keyOf(r.Namespace, r.Name)]
	if object == nil {
		return nil, notFound(r)
	}
	w.note(r, http.StatusOK, nil, nil)
	return object, nil
}

func notFound(r *Request) error { return apierrors.NewNotFound(r.Resource.GroupResource(), r.Name) }

// review answers what a user may do: everything.
func (w *World) review(r *Request) *unstructured.Unstructured {
	out := r.Object.DeepCopy()
	out.SetGroupVersionKind(r.Resource.GroupVersionKind())
	status := map[string]any{"allowed": true}
	switch r.Resource.Kind {
	case "SelfSubjectReview":
		status = map[string]any{"userInfo": map[string]any{"username": r.User, "groups": []any{"system:authenticated"}}}
	case "SelfSubjectRulesReview":
		all := []any{"*"}
		status = map[string]any{"incomplete": false, "nonResourceRules": []any{},
			"resourceRules": []any{map[string]any{"verbs": all, "apiGroups": all, "resources": all}}}
	}
	out.Object["status"] = status
	return out
}
