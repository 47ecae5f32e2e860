package world

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// create carries out a create.
func (w *World) create(r *Request, s *store) (*unstructured.Unstructured, error) {
	object := r.Object.DeepCopy()
	if err := r.place(object); err != nil {
		return nil, err
	}
	if namespaces := w.named("namespaces"); s.Namespaced && namespaces.objects[r.Namespace] == nil {
		return nil, apierrors.NewNotFound(namespaces.GroupResource(), r.Namespace)
	}
	if object.GetName() == "" && object.GetGenerateName() != "" {
		w.uids++
		object.SetName(object.GetGenerateName() + strconv.Itoa(10000+w.uids))
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionTimestamp")
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionGracePeriodSeconds")
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	w.uids++
	object.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", w.uids)))
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

// store stores what a write made of an object, unless that changes nothing.
func (w *World) store(r *Request, s *store, before, object *unstructured.Unstructured, remove bool) *unstructured.Unstructured {
	if r.dryRun() {
		w.note(r, 200, before, before)
		return object
	}
	if before != nil && !remove && reflect.DeepEqual(before.Object, object.Object) {
		if r.Verb == "delete" {
			w.note(r, 200, before, before)
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
	w.note(r, 200, before, after).Last = object
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
	remove := object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
	out := w.store(r, s, before, object, remove)
	if remove { // The answer shows the resourceVersion before that.
		out = out.DeepCopy()
		out.SetResourceVersion(before.GetResourceVersion())
	}
	return out, nil
}

// set sets a field, whatever was in its place. The object is not shared with anyone yet.
func set(object *unstructured.Unstructured, value any, path ...string) {
	values, last := object.Object, len(path)-1
	for _, key := range path[:last] {
		inner, ok := values[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			values[key] = inner
		}
		values = inner
	}
	values[path[last]] = value
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
	for i, getFinalizer := range object.GetFinalizers() {
		if !strings.Contains(getFinalizer, "/") && !slices.Contains(known, getFinalizer) {
			errs = append(errs, field.Invalid(path.Child("finalizers").Index(i), getFinalizer, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
