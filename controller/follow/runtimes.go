package follow

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy/expression"
)

// RuntimeCache finds a runtime among those that are followed.
type RuntimeCache interface {
	// Cached is nil where the runtime is not known, which does not mean that it does not exist.
	Cached(resource schema.GroupVersionResource, key string) map[string]any
}

// Runtimes reads training runtimes and what else objects refer to. It implements feed.RuntimeReader.
type Runtimes struct {
	Client dynamic.Interface
	Cache  RuntimeCache
}

// Get implements feed.RuntimeReader: cache first, live on a miss.
func (r *Runtimes) Get(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	key := reference.Name
	if reference.Namespace != "" {
		key = reference.Namespace + "/" + reference.Name
	}
	if r.Cache != nil {
		if known := r.Cache.Cached(resourceOf(reference), key); known != nil {
			return known, nil
		}
	}
	return r.Read(ctx, reference)
}

// Read implements feed.RuntimeReader.
func (r *Runtimes) Read(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	read, err := r.Client.Resource(resourceOf(reference)).Namespace(reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return read.Object, nil
}

func resourceOf(reference *expression.Reference) schema.GroupVersionResource {
	return reference.Kind.GroupVersion().WithResource(reference.Resource)
}
