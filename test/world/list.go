package world

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection is the part of a resource that a LIST or a watch asks for.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

// fieldsOf are the fields that may be selected by, beside name and namespace.
var fieldsOf = map[string][]string{
	"Pod":       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"},
	"Job":       {"status.successful"},
	"Namespace": {"status.phase"},
	"Event":     {"involvedObject.kind", "involvedObject.name", "involvedObject.uid", "reason", "type"},
}

func (r *Request) selection() (selection, error) {
	out := selection{namespace: r.Namespace}
	var err error
	if out.labels, err = labels.Parse(r.query.Get("labelSelector")); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	if out.fields, err = fields.ParseSelector(r.query.Get("fieldSelector")); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range out.fields.Requirements() {
		known := append([]string{"metadata.name", "metadata.namespace"}, fieldsOf[r.Resource.Kind]...)
		if !slices.Contains(known, requirement.Field) {
			return out, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}
	return out, nil
}

func (s *selection) matches(object *unstructured.Unstructured) bool {
	if object == nil || s.namespace != "" && s.namespace != object.GetNamespace() {
		return false
	}
	values := fields.Set{}
	for _, requirement := range s.fields.Requirements() {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(requirement.Field, ".")...)
		if values[requirement.Field] = ""; value != nil {
			values[requirement.Field] = fmt.Sprint(value)
		}
	}
	return s.fields.Matches(values) && s.labels.Matches(labels.Set(object.GetLabels()))
}

// position is a continue token: where a list goes on, in which snapshot. Revision 0 is whatever is
// there now.
type position struct {
	Revision int64  `json:"rv"`
	After    string `json:"start"`
}

func (p position) String() string {
	text, _ := json.Marshal(p) // It never fails.
	return base64.RawURLEncoding.EncodeToString(text)
}

// list answers a LIST.
func (w *World) list(r *Request) *http.Response {
	s := w.stores[r.Resource.GroupResource()]
	wanted, err := r.selection()
	if err != nil {
		return w.refuse(err)
	}
	from, after, err := w.listed(r, s)
	if err != nil {
		return w.refuse(err)
	}
	limit, _ := strconv.Atoi(r.query.Get("limit"))
	items, next, left := []any{}, "", 0
	for _, key := range slices.Sorted(maps.Keys(from.objects)) {
		switch object := from.objects[key]; {
		case key <= after || wanted.namespace != "" && object.GetNamespace() != wanted.namespace:
		case limit > 0 && len(items) == limit:
			left++ // Whether or not it matches: the last page may be empty.
		case wanted.matches(object):
			items, next = append(items, r.item(object)), key
		}
	}
	metadata := map[string]any{"resourceVersion": strconv.FormatInt(from.revision, 10)}
	if left > 0 {
		metadata["continue"] = position{from.revision, next}.String()
		if wanted.labels.Empty() && wanted.fields.Empty() {
			metadata["remainingItemCount"] = left
		}
		w.lists[snapshotName(s, from.revision)] = from
	}
	w.note(r, http.StatusOK, nil, nil)
	out := map[string]any{"kind": r.Resource.Kind + "List", "apiVersion": r.Resource.GroupVersion().String(), "metadata": metadata, "items": items}
	if r.partial {
		out["kind"], out["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return w.answer(http.StatusOK, out)
}

// item is an object in a list. Objects of built-in kinds come without their kind.
func (r *Request) item(object *unstructured.Unstructured) map[string]any {
	if r.partial || r.Resource.Custom {
		return r.shape(object)
	}
	out := maps.Clone(object.Object)
	delete(out, "kind")
	delete(out, "apiVersion")
	return out
}

func snapshotName(s *store, revision int64) string {
	return s.GroupResource().String() + "@" + strconv.FormatInt(revision, 10)
}

// listed returns the state that a LIST shows, and the key after which it goes on.
func (w *World) listed(r *Request, s *store) (from *snapshot, after string, err error) {
	if token := r.query.Get("continue"); token != "" {
		return w.continued(s, token)
	}
	version := r.query.Get("resourceVersion")
	if version == "" {
		return s.snapshot(w.revision), "", nil
	}
	least, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return nil, "", apierrors.NewBadRequest("resourceVersion: Invalid value: " + version)
	}
	shown := s.shown(w.revision)
	if least > shown.revision {
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", least, shown.revision), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
		return nil, "", err
	}
	return shown, "", nil
}

// shown is what the watch cache shows.
func (s *store) shown(revision int64) *snapshot {
	if s.frozen != nil {
		return s.frozen
	}
	return s.snapshot(revision)
}

func (w *World) continued(s *store, token string) (*snapshot, string, error) {
	var p position
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return nil, "", apierrors.NewBadRequest("continue key is not valid")
	}
	if p.Revision == 0 {
		return s.snapshot(w.revision), p.After, nil
	}
	if known := w.lists[snapshotName(s, p.Revision)]; known != nil {
		return known, p.After, nil
	}
	expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	expired.ErrStatus.Continue = position{0, p.After}.String()
	return nil, "", expired
}
