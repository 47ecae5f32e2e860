package survey

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Clients read from the API server. They are a [Reader] but for Lacks.
type Clients struct {
	Objects  dynamic.Interface
	Metadata metadata.Interface
}

// List implements [Reader].
func (c Clients) List(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, whole bool, options metav1.ListOptions,
) ([]unstructured.Unstructured, string, error) {
	if whole {
		list, err := c.Objects.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.GetContinue(), nil
	}
	list, err := c.Metadata.Resource(resource).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	out := make([]unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		if err := convert(&list.Items[i], &out[i]); err != nil {
			return nil, "", err
		}
	}
	return out, list.Continue, nil
}

// Each calls f for each object of a resource. Its pages are bounded by bytes if the transport of
// the client is a [watch.Cap].
func (c Clients) Each(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions,
	f func(*unstructured.Unstructured) error,
) error {
	return newPages(c, true).each(ctx, resource, namespace, options, f)
}

// Get implements [Reader].
func (c Clients) Get(
	ctx context.Context, resource schema.GroupVersionResource, namespace, name string, whole bool,
) (*unstructured.Unstructured, error) {
	if whole {
		return c.Objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	meta, err := c.Metadata.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, convert(meta, out)
}

// convert makes an object from metadata alone.
func convert(meta *metav1.PartialObjectMetadata, out *unstructured.Unstructured) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return fmt.Errorf("metadata of %s/%s: %w", meta.Namespace, meta.Name, err)
	}
	out.Object = content
	return nil
}
