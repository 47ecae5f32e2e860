package builders

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceWrapper builds a Namespace.
type NamespaceWrapper struct {
	meta[*NamespaceWrapper]
	namespace *corev1.Namespace
}

// MakeNamespace starts a Namespace without annotations.
func MakeNamespace(name string) *NamespaceWrapper {
	namespace := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	w := &NamespaceWrapper{namespace: namespace}
	w.meta = meta[*NamespaceWrapper]{object: namespace, self: w}
	return w
}

// Obj is the Namespace.
func (w *NamespaceWrapper) Obj() *corev1.Namespace { return w.namespace.DeepCopy() }

// Map is the Namespace in its JSON form.
func (w *NamespaceWrapper) Map() map[string]any { return Map(w.namespace) }
