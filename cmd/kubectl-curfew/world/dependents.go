package world

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// listsAtOnce is how many kinds are listed at the same time.
const listsAtOnce = 8

// Dependents counts the objects that an object owns, directly or through others. It lists the
// namespace and leaves out the kinds that the user may not list. unread are resources that the API
// server cannot list.
func (w *World) Dependents(ctx context.Context, namespace string, owner types.UID) (n int, unread []string, err error) {
	kinds, err := w.Kinds()
	if err != nil {
		return 0, nil, err
	}
	var mu sync.Mutex
	owned := map[types.UID][]types.UID{} // by owner
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listsAtOnce)
	for _, kind := range kinds {
		if kind.ClusterScoped || kind.Resource == "events" {
			continue
		}
		resource := w.clients.Metadata.Resource(kind.At()).Namespace(namespace)
		list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		}
		group.Go(func() error {
			err := pages(ctx, list, metav1.ListOptions{}, func(item runtime.Object) error {
				metadata, err := meta.Accessor(item)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for _, by := range metadata.GetOwnerReferences() {
					owned[by.UID] = append(owned[by.UID], metadata.GetUID())
				}
				return nil
			})
			switch status := apierrors.APIStatus(nil); {
			case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
				return nil // Others can still be counted.
			case errors.As(err, &status):
				mu.Lock()
				defer mu.Unlock()
				unread = append(unread, kind.At().GroupResource().String())
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, nil, err
	}
	slices.Sort(unread)
	counted := map[types.UID]bool{owner: true}
	for next := []types.UID{owner}; len(next) > 0; next = next[1:] {
		for _, uid := range owned[next[0]] {
			if !counted[uid] {
				counted[uid] = true
				next = append(next, uid)
			}
		}
	}
	return len(counted) - 1, unread, nil
}
