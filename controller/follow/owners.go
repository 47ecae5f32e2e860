package follow

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
)

// Owners reads the controller owners of objects, of whatever kind. It implements feed.OwnerReader.
type Owners struct {
	Client dynamic.Interface
	Mapper meta.RESTMapper

	statefulSets shared[map[string]bool]
}

var statefulSets = appsv1.SchemeGroupVersion.WithResource("statefulsets")

// Existing implements feed.OwnerReader. A role that permits no list lets all be read one by one.
func (o *Owners) Existing(ctx context.Context, namespace string, owners []*metav1.OwnerReference) ([]*metav1.OwnerReference, error) {
	names, err := o.statefulSets.get(ctx, namespace, func(ctx context.Context) (map[string]bool, error) {
		names := map[string]bool{}
		_, err := paging.Each(ctx, metav1.ListOptions{}, o.Client.Resource(statefulSets).Namespace(namespace).List, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				names[page.Items[i].GetName()] = true
			}
			return nil
		})
		return names, err
	})
	switch {
	case apierrors.IsForbidden(err):
		return owners, nil
	case err != nil:
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	return slices.DeleteFunc(owners, func(owner *metav1.OwnerReference) bool {
		return owner.UID == "" && owner.Kind == policy.StatefulSetProfile.Kind.Kind && !names[owner.Name]
	}), nil
}

// Read implements feed.OwnerReader.
func (o *Owners) Read(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error) {
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: owner.APIVersion, Kind: owner.Kind}}
	}
	kind := group.WithKind(owner.Kind)
	mapping, err := o.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = o.Mapper.RESTMapping(kind.GroupKind()) // It may be served in another version by now.
	}
	if err != nil {
		return nil, err
	}
	var client dynamic.ResourceInterface = o.Client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace == "" { // A reference that the garbage collector cannot follow either.
			return nil, &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
		}
		client = o.Client.Resource(mapping.Resource).Namespace(namespace)
	}
	read, err := client.Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", owner.Kind, owner.Name, err)
	case owner.UID != "" && read.GetUID() != owner.UID: // Without one, the name alone is known.
		return nil, nil
	}
	return read.Object, nil
}

// IsGone reports whether an error says that an object is not there. A 404 of a proxy, or for a kind
// that is not served, does not say so.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
