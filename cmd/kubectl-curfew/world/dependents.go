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
// namespace. unread are resources that it cannot list, and forbidden those that the user may not.
// Few users may list every kind, so forbidden names only the kinds that own or are Pods.
func (w *World) Dependents(ctx context.Context, namespace string, owner types.UID) (n int, forbidden, unread []string, err error) {
	kinds, err := w.Kinds()
	if err != nil {
		return 0, nil, nil, err
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
			mu.Lock()
			defer mu.Unlock()
			switch status := apierrors.APIStatus(nil); { // Others can still be counted.
			case Gone(err):
			case apierrors.IsForbidden(err) && kind.Profile.State == nil && kind.Group != "apps":
			case apierrors.IsForbidden(err):
				forbidden = append(forbidden, kind.At().GroupResource().String())
			case errors.As(err, &status):
				unread = append(unread, kind.At().GroupResource().String())
			default:
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, nil, nil, err
	}
	slices.Sort(forbidden)
	slices.Sort(unread)
	return descendants(owned, owner), forbidden, unread, nil
}

// descendants counts the objects below an owner.
func descendants(owned map[types.UID][]types.UID, owner types.UID) int {
	counted := map[types.UID]bool{owner: true}
	for next := []types.UID{owner}; len(next) > 0; next = next[1:] {
		for _, uid := range owned[next[0]] {
			if !counted[uid] {
				counted[uid] = true
				next = append(next, uid)
			}
		}
	}
	return len(counted) - 1
}
