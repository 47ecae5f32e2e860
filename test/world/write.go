package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// create carries out a create.
func (w *World) create(r *Request, s *store) (*unstructured.Unstructured, error) {
	object := r.Object.DeepCopy()
	if err := r.place(object); err != nil {
		return nil, err
	}
	if err := w.admit(r, s); err != nil {
		return nil, err
	}
	if object.GetName() == "" && object.GetGenerateName() != "" {
		w.uids++
		object.SetName(object.GetGenerateName() + strconv.Itoa(10000+w.uids))
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionTimestamp")
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionGracePeriodSeconds")
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	object.SetUID(w.newUID(object))
	set(object, timestamp(w.now()), "metadata", "creationTimestamp")
	prepareCreate(s, object)
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(object, s.Namespaced, nameOf(s), path)
	if errs = append(errs, checkFinalizers(s, object, path)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(s.GroupVersionKind().GroupKind(), object.GetName(), errs)
	}
	if object.GetResourceVersion() != "" && !r.dryRun() {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	if s.objects[keyOf(r.Namespace, object.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(s.GroupResource(), object.GetName())
	}
	r.Name = object.GetName()
	return w.store(r, s, nil, object, false), nil
}

// createBy has an update or a patch create the object.
func (w *World) createBy(r *Request, s *store, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	created := *r
	created.Verb, created.Object, r.created = "create", object, true
	return w.create(&created, s)
}

// place checks that an object says the same as its path.
func (r *Request) place(object *unstructured.Unstructured) error {
	object.SetGroupVersionKind(r.Resource.GroupVersionKind())
	for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		switch value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", key); reflect.ValueOf(value).Kind() {
		case reflect.Map, reflect.Slice:
			if reflect.ValueOf(value).Len() == 0 {
				unstructured.RemoveNestedField(object.Object, "metadata", key)
			}
		}
	}
	if object.GetNamespace() == "" && r.Namespace != "" {
		object.SetNamespace(r.Namespace)
	}
	if object.GetNamespace() != r.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if r.Name != "" && object.GetName() != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", object.GetName(), r.Name))
	}
	return nil
}

// admit refuses objects in a namespace that does not exist, or is being deleted.
func (w *World) admit(r *Request, s *store) error {
	if !s.Namespaced {
		return nil
	}
	namespaces := w.named("namespaces")
	switch namespace := namespaces.objects[r.Namespace]; {
	case namespace == nil:
		return apierrors.NewNotFound(namespaces.GroupResource(), r.Namespace)
	case namespace.GetDeletionTimestamp() != nil:
		return apierrors.NewForbidden(s.GroupResource(), r.Object.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	}
	return nil
}

// store stores what a write made of an object, unless that changes nothing.
func (w *World) store(r *Request, s *store, before, object *unstructured.Unstructured, remove bool) *unstructured.Unstructured {
	if r.dryRun() {
		record := w.note(r, 200, before, before)
		record.Options, record.DryRun = r.Options, true
		return object
	}
	if before != nil && !remove && reflect.DeepEqual(before.Object, object.Object) {
		if r.Verb == "delete" {
			w.note(r, 200, before, before).Options = r.Options
		}
		return before
	}
	after := object
	if remove { // etcd tells watches the state that it had stored.
		w.commit(s, s.objects[keyOf(r.Namespace, r.Name)].DeepCopy(), true)
		after = nil
	} else {
		w.commit(s, object, false)
	}
	record := w.note(r, 200, before, after)
	record.Options, record.Last = r.Options, object
	return object
}

// update carries out an update, of the whole object or of its status.
func (w *World) update(r *Request, s *store) (*unstructured.Unstructured, error) {
	before := s.objects[keyOf(r.Namespace, r.Name)]
	object := r.Object.DeepCopy()
	if err := r.place(object); err != nil {
		return nil, err
	}
	if before == nil {
		creates := s.Kind == "Lease" || s.Kind == "Event"
		if uid := object.GetUID(); uid != "" && (creates || w.missingConflicts) {
			return nil, apierrors.NewConflict(s.GroupResource(), r.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: ", uid))
		}
		if !creates {
			return nil, notFound(r)
		}
		return w.createBy(r, s, object)
	}
	if uid := object.GetUID(); uid != "" && uid != before.GetUID() {
		return nil, apierrors.NewConflict(s.GroupResource(), r.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, before.GetUID()))
	}
	if object.GetResourceVersion() == "" {
		if s.Custom || s.Kind == "Lease" {
			kind := s.GroupVersionKind().GroupKind()
			kind.Kind = s.Resource.Resource
			return nil, apierrors.NewInvalid(kind, r.Name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
		}
		object.SetResourceVersion(before.GetResourceVersion())
	}
	return w.replace(r, s, before, object)
}

const optimisticLock = "the object has been modified; please apply your changes to the latest version and try again"

// replace stores the new state of an object that exists.
func (w *World) replace(r *Request, s *store, before, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if object.GetResourceVersion() != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(s.GroupResource(), r.Name, errors.New(optimisticLock))
	}
	if r.Subresource != "" && !s.Status {
		return nil, apierrors.NewNotFound(s.GroupResource(), r.Name)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	prepareUpdate(s, r.Subresource, before, object)
	if object.GetUID() == "" {
		object.SetUID(before.GetUID())
	}
	keep(before, object, "metadata", "creationTimestamp")
	if before.GetDeletionTimestamp() != nil {
		keep(before, object, "metadata", "deletionTimestamp")
		if object.GetDeletionGracePeriodSeconds() == nil {
			keep(before, object, "metadata", "deletionGracePeriodSeconds")
		}
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(object, s.Namespaced, nameOf(s), path)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(object, before, path)...)
	errs = append(errs, checkFinalizers(s, object, path)...)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(s.GroupVersionKind().GroupKind(), r.Name, errs)
	}
	grace := object.GetDeletionGracePeriodSeconds()
	remove := object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && (grace == nil || *grace == 0) && len(specFinalizers(object)) == 0
	out := w.store(r, s, before, object, remove)
	if remove { // The answer shows the resourceVersion before that.
		out = out.DeepCopy()
		out.SetResourceVersion(before.GetResourceVersion())
	}
	return out, nil
}

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

// set sets a field, whatever was in its place. The object is not shared with anyone yet.
func set(object *unstructured.Unstructured, value any, path ...string) {
	at, last := object.Object, len(path)-1
	for _, key := range path[:last] {
		inner, ok := at[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[key] = inner
		}
		at = inner
	}
	at[path[last]] = value
}

// keep copies a field of the state before, or its absence.
func keep(before, object *unstructured.Unstructured, path ...string) {
	value, ok, _ := unstructured.NestedFieldNoCopy(before.Object, path...)
	if !ok {
		unstructured.RemoveNestedField(object.Object, path...)
		return
	}
	set(object, runtime.DeepCopyJSONValue(value), path...)
}

func specFinalizers(object *unstructured.Unstructured) []string {
	if object.GetKind() != "Namespace" {
		return nil
	}
	out, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "finalizers")
	return out
}

// nameOf is how the names of a resource are checked.
func nameOf(s *store) validation.ValidateNameFunc {
	switch {
	case s.Kind == "Namespace":
		return validation.ValidateNamespaceName
	case s.Group == "rbac.authorization.k8s.io":
		return func(string, bool) []string { return nil }
	}
	return validation.NameIsDNSSubdomain
}

// checkFinalizers demands of most built-in kinds that their finalizers are known, or are qualified names.
func checkFinalizers(s *store, object *unstructured.Unstructured, path *field.Path) (errs field.ErrorList) {
	if s.Custom || s.Kind == "Lease" {
		return nil
	}
	known := []string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
	for i, one := range object.GetFinalizers() {
		if !strings.Contains(one, "/") && !slices.Contains(known, one) {
			errs = append(errs, field.Invalid(path.Child("finalizers").Index(i), one, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// prepareCreate sets the fields that the API server sets, whatever is sent.
func prepareCreate(s *store, object *unstructured.Unstructured) {
	object.SetGeneration(0)
	if s.Status {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	fallback := func(value any, path ...string) {
		if _, ok, _ := unstructured.NestedFieldNoCopy(object.Object, path...); !ok {
			set(object, value, path...)
		}
	}
	switch s.Kind {
	case "Namespace":
		set(object, []any{"kubernetes"}, "spec", "finalizers")
		set(object, "Active", "status", "phase")
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = object.GetName()
		object.SetLabels(labels)
	case "Pod":
		set(object, "Pending", "status", "phase")
		fallback("Always", "spec", "restartPolicy")
		fallback(int64(30), "spec", "terminationGracePeriodSeconds")
	case "Job":
		set(object, map[string]any{}, "status")
		fallback(int64(1), "spec", "parallelism")
		fallback(int64(1), "spec", "completions")
		fallback(int64(6), "spec", "backoffLimit")
		fallback(false, "spec", "suspend")
		object.SetGeneration(1)
	}
	if s.Kind == "Lease" {
		fallback(map[string]any{}, "spec")
	}
	if s.Custom {
		object.SetGeneration(1)
	}
}

// prepareUpdate keeps what the endpoint does not change, and counts generations.
func prepareUpdate(s *store, subresource string, before, object *unstructured.Unstructured) {
	object.SetGeneration(before.GetGeneration())
	switch {
	case subresource == "status" && s.Custom:
		status, ok := object.Object["status"]
		object.Object = before.DeepCopy().Object
		delete(object.Object, "status")
		if ok {
			object.Object["status"] = status
		}
		return
	case subresource == "status":
		keep(before, object, "spec")
		if s.Kind == "Pod" {
			keep(before, object, "metadata", "ownerReferences")
		}
		return
	case s.Status:
		keep(before, object, "status")
	}
	if s.Kind == "Namespace" {
		keep(before, object, "spec", "finalizers")
	}
	if (s.Custom || s.Kind == "Job") && changed(s, before, object) {
		object.SetGeneration(before.GetGeneration() + 1)
	}
}

// changed reports whether anything but the metadata and, where it is a subresource, the status
// differs.
func changed(s *store, before, object *unstructured.Unstructured) bool {
	keys := []string{}
	for key := range before.Object {
		keys = append(keys, key)
	}
	for key := range object.Object {
		keys = append(keys, key)
	}
	return slices.ContainsFunc(keys, func(key string) bool {
		return key != "metadata" && (key != "status" || !s.Status) && !reflect.DeepEqual(before.Object[key], object.Object[key])
	})
}
