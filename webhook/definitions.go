package webhook

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/expression"
)

// Definitions is an empty CustomResourceDefinition; caches and informers are keyed by it. Their transform has to be
// [StripDefinition].
func Definitions() *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return out
}

// definition is what is kept of a CustomResourceDefinition.
type definition struct {
	metav1.PartialObjectMetadata
	says *expression.Definition
}

// DeepCopyObject implements [runtime.Object]. What the definition says is never changed.
func (d *definition) DeepCopyObject() runtime.Object {
	return &definition{PartialObjectMetadata: *d.PartialObjectMetadata.DeepCopy(), says: d.says}
}

// StripDefinition is a cache's transform: a cluster holds many CustomResourceDefinitions, and large ones, of which the names of
// fields are all that is asked for.
func StripDefinition(object any) (any, error) {
	read, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	says := expression.DefinitionOf(read.Object)
	out := &definition{says: &says}
	out.TypeMeta = metav1.TypeMeta{APIVersion: read.GetAPIVersion(), Kind: read.GetKind()}
	out.Name, out.UID, out.ResourceVersion, out.Generation = read.GetName(), read.GetUID(), read.GetResourceVersion(), read.GetGeneration()
	return out, nil
}
