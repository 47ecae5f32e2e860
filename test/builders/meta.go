package builders

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// meta changes the metadata of the object inside a wrapper W and hands the wrapper back.
type meta[W any] struct {
	object metav1.Object
	self   W
}

// UID sets metadata.uid.
func (m *meta[W]) UID(uid types.UID) W {
	m.object.SetUID(uid)
	return m.self
}

// ResourceVersion sets metadata.resourceVersion.
func (m *meta[W]) ResourceVersion(version string) W {
	m.object.SetResourceVersion(version)
	return m.self
}

// Annotation sets one annotation.
func (m *meta[W]) Annotation(key, value string) W {
	m.object.SetAnnotations(with(m.object.GetAnnotations(), key, value))
	return m.self
}

// Label sets one label.
func (m *meta[W]) Label(key, value string) W {
	m.object.SetLabels(with(m.object.GetLabels(), key, value))
	return m.self
}

// Finalizer adds a finalizer.
func (m *meta[W]) Finalizer(name string) W {
	m.object.SetFinalizers(append(m.object.GetFinalizers(), name))
	return m.self
}

// Created sets metadata.creationTimestamp.
func (m *meta[W]) Created(at time.Time) W {
	m.object.SetCreationTimestamp(metav1.NewTime(at))
	return m.self
}

// Deleting sets metadata.deletionTimestamp.
func (m *meta[W]) Deleting(at time.Time) W {
	stamp := metav1.NewTime(at)
	m.object.SetDeletionTimestamp(&stamp)
	return m.self
}

// ControlledBy adds an owner reference with controller: true.
func (m *meta[W]) ControlledBy(apiVersion, kind, name string) W {
	controller := true
	return m.Owner(metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: &controller})
}

// Owner adds an owner reference as it is.
func (m *meta[W]) Owner(owner metav1.OwnerReference) W {
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
