package world

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// found is an object with its resource.
type found struct {
	*unstructured.Unstructured
	resource string
}

// all are the objects of all resources but Events and Leases.
func (w *World) all() (out []found) {
	w.mu.Lock()
	var names []string
	for _, s := range w.order {
		if s.Kind != "Event" && s.Kind != "Lease" && len(s.objects) > 0 {
			names = append(names, s.GroupResource().String())
		}
	}
	w.mu.Unlock()
	for _, name := range names {
		for _, object := range w.Objects(name) {
			out = append(out, found{object, name})
		}
	}
	return out
}

// collectGarbage is the garbage collector.
func (w *World) collectGarbage() {
	all := w.all()
	known, dependents := map[types.UID]bool{}, map[types.UID][]found{}
	for _, found := range all {
		known[found.GetUID()] = true
		for _, owner := range found.GetOwnerReferences() {
			dependents[owner.UID] = append(dependents[owner.UID], found)
		}
	}
	for _, found := range all {
		owners := found.GetOwnerReferences()
		gone := !slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return known[owner.UID] })
		if len(owners) > 0 && gone && found.GetDeletionTimestamp() == nil {
			w.collect(found)
		}
		if found.GetDeletionTimestamp() == nil {
			continue
		}
		founds := dependents[found.GetUID()]
		if slices.Contains(found.GetFinalizers(), metav1.FinalizerOrphanDependents) {
			w.orphan(found, founds)
		}
		if slices.Contains(found.GetFinalizers(), metav1.FinalizerDeleteDependents) {
			w.foreground(found, founds)
		}
	}
}

// collect deletes an object whose owners are gone.
func (w *World) collect(f found) {
	_ = w.Remove(KubeController, f.resource, f.GetNamespace(), f.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: new(f.GetUID()), ResourceVersion: new(f.GetResourceVersion())},
		PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

// orphan takes an object out of the owners of its dependents, and then lets it go.
func (w *World) orphan(f found, dependents []found) {
	for _, dependent := range dependents {
		w.Edit(KubeController, dependent.resource, dependent.GetNamespace(), dependent.GetName(), "", func(live *unstructured.Unstructured) {
			live.SetOwnerReferences(slices.DeleteFunc(live.GetOwnerReferences(),
				func(owner metav1.OwnerReference) bool { return owner.UID == f.GetUID() }))
		})
	}
	w.dropFinalizer(f.resource, f.Unstructured, metav1.FinalizerOrphanDependents)
}

// foreground deletes the dependents of an object, and lets it go once none is left that blocks it.
func (w *World) foreground(f found, dependents []found) {
	blocked := false
	for _, dependent := range dependents {
		if dependent.GetDeletionTimestamp() == nil {
			w.collect(dependent)
		}
		for _, owner := range dependent.GetOwnerReferences() {
			blocked = blocked || owner.UID == f.GetUID() && owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion
		}
	}
	if !blocked {
		w.dropFinalizer(f.resource, f.Unstructured, metav1.FinalizerDeleteDependents)
	}
}
