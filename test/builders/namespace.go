package builders

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceWrapper builds a Namespace.
type NamespaceWrapper struct {
	meta[*NamespaceWrapper, *corev1.Namespace]
}

// MakeNamespace starts a Namespace without annotations.
func MakeNamespace(name string) *NamespaceWrapper {
	namespace := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	w := &NamespaceWrapper{}
	w.meta = meta[*NamespaceWrapper, *corev1.Namespace]{object: namespace, self: w}
	return w
}
