package builders

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kind is what a wrapper wraps.
type kind[O any] interface {
	metav1.Object
	DeepCopy() O
}

// meta sets the metadata of an object of kind O, in a wrapper W that embeds it.
type meta[W any, O kind[O]] struct {
	object O
	self   W
}

// Obj returns a copy of the object.
func (m *meta[W, O]) Obj() O { return m.object.DeepCopy() }

// Map returns the object as an unstructured one.
func (m *meta[W, O]) Map() map[string]any { return Map(m.object) }

// UID sets metadata.uid.
func (m *meta[W, O]) UID(uid types.UID) W {
	m.object.SetUID(uid)
	return m.self
}

// ResourceVersion sets metadata.resourceVersion.
func (m *meta[W, O]) ResourceVersion(version string) W {
	m.object.SetResourceVersion(version)
	return m.self
}

// Annotation sets one annotation.
func (m *meta[W, O]) Annotation(key, value string) W {
	m.object.SetAnnotations(with(m.object.GetAnnotations(), key, value))
	return m.self
}

// Label sets one label.
func (m *meta[W, O]) Label(key, value string) W {
	m.object.SetLabels(with(m.object.GetLabels(), key, value))
	return m.self
}

// Finalizer adds a finalizer.
func (m *meta[W, O]) Finalizer(name string) W {
	m.object.SetFinalizers(append(m.object.GetFinalizers(), name))
	return m.self
}

// Created sets metadata.creationTimestamp.
func (m *meta[W, O]) Created(t time.Time) W {
	m.object.SetCreationTimestamp(metav1.NewTime(t))
	return m.self
}

// Deleting sets metadata.deletionTimestamp.
func (m *meta[W, O]) Deleting(t time.Time) W {
	stamp := metav1.NewTime(t)
	m.object.SetDeletionTimestamp(&stamp)
	return m.self
}

// ControlledBy adds an owner reference with controller: true.
func (m *meta[W, O]) ControlledBy(apiVersion, kind, name string) W {
	controller := true
	return m.Owner(metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: &controller})
}

// Owner adds an owner reference as it is.
func (m *meta[W, O]) Owner(owner metav1.OwnerReference) W {
	m.object.SetOwnerReferences(append(m.object.GetOwnerReferences(), owner))
	return m.self
}

func with(fields map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range fields {
		if k != key {
			out[k] = v
		}
	}
	return out
}
