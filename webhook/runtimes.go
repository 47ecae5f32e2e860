package webhook

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy/expression"
)

// cachedReadTimeout leaves time for the live read: the first one of a kind waits for the cache to fill.
const cachedReadTimeout = time.Second

// Runtimes reads runtimes from a cache, and from the API server where that does not know them.
type Runtimes struct {
	cache, live client.Reader
}

// NewRuntimes returns a getter over a cache and over a reader that asks the API server.
func NewRuntimes(cache, live client.Reader) *Runtimes { return &Runtimes{cache: cache, live: live} }

// Runtime implements [RuntimeGetter]: whatever the cache cannot answer, the API server is asked.
func (r *Runtimes) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	if object, err := getRuntime(ctx, r.cache, reference, cachedReadTimeout); err == nil {
		return object, nil
	}
	object, err := getRuntime(ctx, r.live, reference, liveReadTimeout)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("from the API server: %w", err)
	}
	return object, nil
}

func getRuntime(ctx context.Context, from client.Reader, reference *expression.Reference, timeout time.Duration) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(reference.Kind)
	if err := from.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, object); err != nil {
		return nil, err
	}
	return object.Object, nil
}
