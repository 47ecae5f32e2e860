package feed

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
)

// OwnerReader reads the controller owners of objects.
type OwnerReader interface {
	// Read asks the API server. Nil without an error means that the owner is gone, or that another
	// object has its name.
	Read(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error)
	// Existing leaves out StatefulSets that are known by name alone and do not exist. One list
	// serves all callers for a namespace.
	Existing(ctx context.Context, namespace string, owners []*metav1.OwnerReference) ([]*metav1.OwnerReference, error)
}

// fewOwners is how many owners are read one by one. The name of a claim may have many dashes, and
// fit as many StatefulSets.
const fewOwners = 4

// asksOwner reports whether the owner must be read before an object is deleted or stopped.
func (f *trigger) asksOwner(facts *policy.Facts) bool {
	return f.options.Owners != nil && len(facts.TemplateOwners(f.Keys...)) > 0
}

// inherited replaces the verdict on a due object if its value comes from its owner's template or
// its owner cannot be read. It reads the owner live, and only if the object is due.
func (f *trigger) inherited(ctx context.Context, facts *policy.Facts, verdict policy.Verdict) (policy.Verdict, error) {
	if verdict.Action != policy.Delete && verdict.Action != policy.Stop || !f.asksOwner(facts) {
		return verdict, nil
	}
	owners := facts.TemplateOwners(f.Keys...)
	if len(owners) > fewOwners {
		var err error
		if owners, err = f.options.Owners.Existing(ctx, facts.Namespace, owners); err != nil {
			return verdict, err
		}
	}
	for _, owner := range owners {
		read, err := f.options.Owners.Read(ctx, facts.Namespace, owner)
		switch {
		case err != nil && unreadable(err):
			return facts.OwnerUnreadable(owner, err), nil
		case err != nil:
			return verdict, fmt.Errorf("reading the owner of %s %s: %w", f.kind.Profile.Name, name(facts.Namespace, facts.Name), err)
		}
		if kept, ok := facts.Inherited(owner, read, f.Keys...); ok {
			return kept, nil
		}
	}
	return verdict, nil
}

// unreadable reports whether an error will not pass by itself: a missing permission, an unknown
// kind.
func unreadable(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= 400 && code < 500 && !apierrors.IsTooManyRequests(err) && !apierrors.IsUnauthorized(err)
	}
	return meta.IsNoMatchError(err)
}
