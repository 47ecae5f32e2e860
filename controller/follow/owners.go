package follow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Owners reads the controller owners of objects, of whatever kind. It implements feed.OwnerReader.
type Owners struct {
	Client dynamic.Interface
	Mapper meta.RESTMapper
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
