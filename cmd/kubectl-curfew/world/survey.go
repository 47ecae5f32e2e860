package world

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/discovery/served"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Account reads as the service account of a cleanup policy, or as the user.
type Account struct {
	survey.Clients
	Name types.NamespacedName
	// Own means that it reads as the user, who may not impersonate the account.
	Own bool
}

// AccountOf impersonates a service account if the user may. The zero name is the account of
// policies that name none, by the name that manifests/rbac gives it.
func (w *World) AccountOf(ctx context.Context, name types.NamespacedName) (*Account, error) {
	if name.Name == "" {
		name = types.NamespacedName{Namespace: w.Controller.Namespace, Name: "curfew-cleanup"}
	}
	own := &Account{Clients: survey.Clients{Objects: w.clients.Objects, Metadata: w.clients.Metadata}, Name: name, Own: true}
	if w.clients.As == nil {
		return own, nil
	}
	missing, err := lacking(ctx, own, schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, name.Namespace, name.Name, "impersonate")
	if err != nil || missing != "" {
		return own, err
	}
	as, err := w.clients.As(fmt.Sprintf("system:serviceaccount:%s:%s", name.Namespace, name.Name))
	if err != nil {
		return nil, fmt.Errorf("impersonating service account %s: %w", name, err)
	}
	return &Account{Clients: survey.Clients{Objects: as.Objects, Metadata: as.Metadata}, Name: name}, nil
}

// Lacks implements [survey.Reader]. To see what would be deleted, the user needs no right to
// delete.
func (a *Account) Lacks(ctx context.Context, resource schema.GroupVersionResource, namespace string, verbs ...string) (string, error) {
	if a.Own {
		verbs = slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool { return verb == "delete" })
	}
	return lacking(ctx, a, resource, namespace, "", verbs...)
}

// lacking returns the first of the verbs that an account may not use.
func lacking(ctx context.Context, a *Account, resource schema.GroupVersionResource, namespace, name string, verbs ...string) (string, error) {
	for _, verb := range verbs {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Verb: verb, Namespace: namespace, Name: name,
		}}}
		if err := ask(ctx, a.Objects, "SelfSubjectAccessReview", review); err != nil {
			return "", fmt.Errorf("asking who may %s %s: %w", verb, resource.GroupResource(), err)
		}
		if !review.Status.Allowed {
			return verb, nil
		}
	}
	return "", nil
}

// Resources returns the resources that cleanup policies can match. The error may be
// [cleanup.SilentGroups].
func (w *World) Resources(context.Context) ([]cleanup.Resource, error) {
	found, err := w.discover()
	if err == nil && len(found.silent) > 0 {
		err = cleanup.SilentGroups(found.silent)
	}
	return served.Resources(found.groups, found.lists), err
}

// NamespacesFor are the namespaces that a cleanup policy selects from; only one, if it is given.
func (w *World) NamespacesFor(ctx context.Context, p *cleanup.Policy, only string) ([]*resolution.NamespacePolicy, error) {
	if _, all := p.Namespaces(nil); all || p.Namespace != "" {
		return nil, nil
	}
	if only != "" {
		namespace, err := w.Source().Namespace(ctx, only)
		return []*resolution.NamespacePolicy{namespace}, err
	}
	var out []*resolution.NamespacePolicy
	err := pages(ctx, w.clients.listNamespaces, metav1.ListOptions{}, func(item runtime.Object) error {
		if object, ok := item.(*metav1.PartialObjectMetadata); ok {
			out = append(out, resolution.NamespaceOf(&object.ObjectMeta))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing those that the namespaceSelector may match: %w", err)
	}
	return out, nil
}

func (c Clients) listNamespaces(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return c.Metadata.Resource(namespaceResource).List(ctx, options)
}

// Approved reports whether a policy as it is now has an approval. It is not known if the user
// may not list approvals.
func (w *World) Approved(ctx context.Context, p *cleanup.Policy) (approved, known bool, err error) {
	if p.UID == "" {
		return false, true, nil // It is not in the cluster.
	}
	resource := v1alpha1.ClusterCleanupApprovals
	if p.Namespace != "" {
		resource = v1alpha1.CleanupApprovals
	}
	err = pages(ctx, w.lister(v1alpha1.GroupVersion.WithResource(resource), p.Namespace), metav1.ListOptions{}, func(item runtime.Object) error {
		if object, ok := item.(*unstructured.Unstructured); ok {
			approved = approved || p.ApprovedBy(object)
		}
		return nil
	})
	if apierrors.IsForbidden(err) {
		w.lack("list %s.%s", resource, wellknown.Group)
		return false, false, nil
	}
	return approved, true, err
}
