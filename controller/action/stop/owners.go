package stop

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/action"
)

// above follows the controllers upwards and returns their UIDs. It stops at an owner that is gone
// or was re-created: nothing proves that the owners above it own this object, so its Pods are left
// to the garbage collector (S5). It also stops at an owner that Curfew may not read, and returns
// the reason as unknown.
func (x *podIndex) above(ctx context.Context, namespace string, references []metav1.OwnerReference) (uids []types.UID, unknown string, err error) {
	for range ownersMost {
		owner := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: references})
		if owner == nil {
			break
		}
		uids = append(uids, owner.UID)
		references, err = x.ownersOf(ctx, namespace, owner)
		switch {
		case apierrors.IsForbidden(err):
			return uids, fmt.Sprintf("%s %s/%s may not be read", owner.Kind, namespace, owner.Name), nil
		case err != nil && answered(err) && !comeAgain(err):
			// A refusal about one owner keeps its Pods. It keeps no Pods of other owners running.
			return uids, fmt.Sprintf("%s %s/%s cannot be read", owner.Kind, namespace, owner.Name), nil
		case err != nil:
			return nil, "", err
		}
	}
	return uids, "", nil
}

// ownersOf returns the owners of an owner. It reads them at most once within ownersFresh.
func (x *podIndex) ownersOf(ctx context.Context, namespace string, owner *metav1.OwnerReference) ([]metav1.OwnerReference, error) {
	now, key := x.clock.Now(), ownerKey{namespace, owner.APIVersion, owner.Kind, owner.Name, owner.UID}
	if known, ok := x.owners.Get(key); ok {
		if known := known.(ownedBy); now.Sub(known.at) < ownersFresh && !now.Before(known.at) {
			return known.references, nil
		}
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, nil // No such owner can exist.
	}
	// Guess the plural by the API conventions, which every kind that runs Pods follows. The API
	// server answers a wrong guess with 404.
	resource, _ := meta.UnsafeGuessKindToResource(group.WithKind(owner.Kind))
	// The author of a Pod chooses the reference, and the client does not check it. Without this
	// check Curfew would send requests to arbitrary paths, and an unexpected answer would hide all
	// Pods of the namespace.
	for _, segment := range []string{resource.Group, resource.Version, resource.Resource, owner.Name} {
		if len(content.IsPathSegmentName(segment)) > 0 {
			return nil, nil // No such owner can exist.
		}
	}
	object, err := x.client.Resource(resource).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	var references []metav1.OwnerReference
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s, an owner of Pods: %w", owner.Kind, namespace, owner.Name, err)
	case object.UID == owner.UID:
		references = object.OwnerReferences
	}
	x.owners.Add(key, ownedBy{references, now})
	return references, nil
}

// comeAgain reports whether the API server is overloaded, so that reading the next owner would
// fail, too.
func comeAgain(err error) bool {
	_, asked := apierrors.SuggestsClientDelay(err)
	return asked || apierrors.IsTooManyRequests(err)
}

// answered reports whether an error is an answer of the API server.
func answered(err error) bool {
	_, ok := action.FailureOf(err)
	return ok
}
