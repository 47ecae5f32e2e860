package registry

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// verbs are what deleting on time takes: list and watch find what is finished, get reads afresh what is to be judged again.
var verbs = []string{"get", "list", "watch", "delete"}

// Reviews asks the API server what Curfew itself may do.
type Reviews struct {
	Client authorizationclient.SelfSubjectAccessReviewInterface
	// RulesClient lists all that is granted, as far as the authorizer can; only [Labels] ask it.
	RulesClient RulesReviewer
}

// Missing names the verbs on a resource, in all namespaces, that are not granted.
func (r Reviews) Missing(ctx context.Context, resource schema.GroupVersionResource) ([]string, error) {
	return r.missing(ctx, verbs, resource, metav1.NamespaceAll)
}

// MissingIn implements [Granter]. Of most kinds nothing may be deleted, so that this is asked first and, where it is the answer,
// alone.
func (r Reviews) MissingIn(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]string, error) {
	missing, err := r.missing(ctx, []string{"delete"}, resource, namespace)
	if err != nil || len(missing) > 0 {
		return missing, err
	}
	return r.missing(ctx, []string{"get", "list", "watch"}, resource, namespace)
}

func (r Reviews) missing(ctx context.Context, verbs []string, resource schema.GroupVersionResource, namespace string) ([]string, error) {
	var missing []string
	for _, verb := range verbs {
		ok, err := r.may(ctx, Need{Verb: verb, Resource: resource}, namespace)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, verb)
		}
	}
	return missing, nil
}

// Lacks answers with the needs, in all namespaces, that are not granted.
func (r Reviews) Lacks(ctx context.Context, needs []Need) ([]Need, error) {
	var out []Need
	for _, need := range needs {
		ok, err := r.may(ctx, need, metav1.NamespaceAll)
		if err != nil {
			return nil, err
		}
		if !ok {
			out = append(out, need)
		}
	}
	return out, nil
}

func (r Reviews) may(ctx context.Context, need Need, namespace string) (bool, error) {
	review, err := r.Client.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: need.Resource.Group, Version: need.Resource.Version, Resource: need.Resource.Resource, Subresource: need.Subresource,
			Verb: need.Verb, Namespace: namespace,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether Curfew may %s: %w", need, err)
	}
	return review.Status.Allowed, nil
}
