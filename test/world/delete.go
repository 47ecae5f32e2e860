package world

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
)

// delete carries out a DELETE as registry.Store.Delete does. It returns nil if the object is gone.
func (w *World) delete(r *Request, s *store) (*unstructured.Unstructured, error) {
	before := s.objects[keyOf(r.Namespace, r.Name)]
	if before == nil {
		return nil, w.refused(r, nil, notFound(r))
	}
	options := r.Options
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if err := checkPreconditions(s, before, options); err != nil {
		return nil, w.refused(r, before, err)
	}
	object := before.DeepCopy()
	graceful, pending := w.graceful(s, object, options)
	if pending {
		return w.store(r, s, before, before, false), nil
	}
	finalizers := finalizersAfter(s, object, options)
	changed := !sets.New(finalizers...).Equal(sets.New(object.GetFinalizers()...))
	if changed {
		object.SetFinalizers(finalizers)
	}
	if len(finalizers) > 0 {
		if !graceful {
			w.mark(object)
		}
		return w.store(r, s, before, object, false), nil
	}
	if graceful && *object.GetDeletionGracePeriodSeconds() > 0 {
		return w.store(r, s, before, object, false), nil
	}
	if changed && !graceful && options.Preconditions != nil && options.Preconditions.ResourceVersion != nil {
		// The API server compares the precondition with the resourceVersion of the update that it left
		// out: an empty one.
		return nil, w.refused(r, before, apierrors.NewConflict(s.GroupResource(), r.Name, fmt.Errorf("Precondition failed: resourceVersion in precondition: , "+
			"resourceVersion in object meta: %s", before.GetResourceVersion())))
	}
	if graceful && !r.dryRun() {
		w.commit(s, object.DeepCopy(), false) // Watches see this state, too.
	}
	out := w.store(r, s, before, object, true)
	if changed && !graceful && r.dryRun() { // The API server answers with the object that it never read.
		return s.empty(), nil
	}
	if slices.Contains([]string{"Pod", "ServiceAccount"}, s.Kind) {
		if !r.dryRun() {
			out.SetResourceVersion(strconv.FormatInt(w.revision, 10))
		}
		return out, nil // These are returned as they were last.
	}
	return nil, nil
}

// empty is an object of a kind without any content.
func (s *store) empty() *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	if typed, err := scheme.Scheme.New(s.GroupVersionKind()); err == nil {
		if content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err == nil {
			out.Object = content
		}
	}
	out.SetGroupVersionKind(s.GroupVersionKind())
	return out
}

// refused records a DELETE that is refused.
func (w *World) refused(r *Request, before *unstructured.Unstructured, err error) error {
	w.note(r, int(statusOf(err).Code), before, before)
	return err
}

func checkPreconditions(s *store, object *unstructured.Unstructured, options *metav1.DeleteOptions) error {
	wanted := options.Preconditions
	switch {
	case wanted == nil:
		return nil
	case wanted.UID != nil && *wanted.UID != object.GetUID():
		return apierrors.NewConflict(schema.GroupResource{Group: s.Group, Resource: s.Kind}, object.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated",
			*wanted.UID, object.GetUID()))
	case wanted.ResourceVersion != nil && *wanted.ResourceVersion != object.GetResourceVersion():
		return apierrors.NewConflict(schema.GroupResource{Group: s.Group, Resource: s.Kind}, object.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified",
			*wanted.ResourceVersion, object.GetResourceVersion()))
	}
	return nil
}

// graceful gives a Pod its time to end. pending: it has that already, and nothing changes.
func (w *World) graceful(s *store, object *unstructured.Unstructured, options *metav1.DeleteOptions) (graceful, pending bool) {
	if s.Kind != "Pod" {
		return false, false
	}
	wanted := options.GracePeriodSeconds
	if has := object.GetDeletionGracePeriodSeconds(); object.GetDeletionTimestamp() != nil {
		if has == nil || *has == 0 {
			return false, false
		}
		if wanted == nil || *wanted >= *has {
			return false, true
		}
		t := metav1.NewTime(object.GetDeletionTimestamp().Add(time.Duration(*wanted-*has) * time.Second))
		if now := metav1.NewTime(w.now()); t.Before(&now) {
			t = now
			if *wanted != 0 {
				wanted = new(int64(1))
			}
		}
		setDeletion(object, t.Time, *wanted)
		return true, false
	}
	period, _, _ := unstructured.NestedInt64(object.Object, "spec", "terminationGracePeriodSeconds")
	if wanted != nil {
		period = *wanted
	}
	node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	if node == "" || phase == "Succeeded" || phase == "Failed" {
		period = 0
	}
	setDeletion(object, w.now().Add(time.Duration(period)*time.Second), period)
	if generation := object.GetGeneration(); generation > 0 {
		object.SetGeneration(generation + 1)
	}
	return true, false
}

// mark marks an object that finalizers keep.
func (w *World) mark(object *unstructured.Unstructured) {
	if object.GetDeletionGracePeriodSeconds() == nil && object.GetGeneration() > 0 {
		object.SetGeneration(object.GetGeneration() + 1)
	}
	now := w.now()
	t := object.GetDeletionTimestamp()
	if t == nil || t.After(now) {
		t = new(metav1.NewTime(now))
	}
	setDeletion(object, t.Time, 0)
}

func setDeletion(object *unstructured.Unstructured, t time.Time, grace int64) {
	set(object, timestamp(t), "metadata", "deletionTimestamp")
	set(object, grace, "metadata", "deletionGracePeriodSeconds")
}

// finalizersAfter are the finalizers once a DELETE has asked the garbage collector for its
// propagation. An explicit policy wins over the finalizers that the object has, and these over the
// default of the kind.
func finalizersAfter(s *store, object *unstructured.Unstructured, options *metav1.DeleteOptions) []string {
	has := object.GetFinalizers()
	if s.Kind == "Event" {
		return has // Events have no dependents.
	}
	orphan := slices.Contains(has, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(has, metav1.FinalizerDeleteDependents)
	if !orphan && !foreground {
		orphan = s.Kind == "Job" // The default of batch/v1.
	}
	//lint:ignore SA1019 The API server still reads it.
	older := options.OrphanDependents
	switch {
	case older != nil:
		orphan, foreground = *older, false
	case options.PropagationPolicy != nil:
		orphan = *options.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *options.PropagationPolicy == metav1.DeletePropagationForeground
	}
	var out []string
	for _, ha := range has {
		if ha != metav1.FinalizerOrphanDependents && ha != metav1.FinalizerDeleteDependents {
			out = append(out, ha)
		}
	}
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	return out
}
