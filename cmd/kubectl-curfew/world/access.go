package world

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/webhook/probe"
)

// MayI asks whether the user may use a verb on an object.
func (c *cluster) MayI(ctx context.Context, kind Kind, namespace, name, verb string) (bool, error) {
	may, err := allowed(ctx, c.clients.Objects, attributes(kind.At(), namespace, name, verb))
	if err != nil {
		return false, fmt.Errorf("asking whether you may %s %s: %w", verb, kind.Name(name), err)
	}
	return may, nil
}

// MayUpdatePolicy asks whether the user may update a LifecyclePolicy, which exempts from its
// bounds.protect.
func (c *cluster) MayUpdatePolicy(ctx context.Context, name string) rules.Answer {
	kind := Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind("LifecyclePolicy"), Resource: v1alpha1.LifecyclePolicies}
	answer, _ := c.updates.get(name, func() (rules.Answer, error) { // Without an answer the bound applies, as in admission.
		may, err := c.MayI(ctx, kind, "", name, "update")
		switch {
		case err != nil:
			return rules.Unknown, err
		case may:
			return rules.Yes, nil
		}
		return rules.No, nil
	})
	return answer
}

// allowed asks whether the user of a client may do something.
func allowed(ctx context.Context, client dynamic.Interface, what *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: what}}
	err := ask(ctx, client, "SelfSubjectAccessReview", review)
	return review.Status.Allowed, err
}

// ask creates a review and reads the answer into it. client-go's typed client would link every API
// type.
func ask(ctx context.Context, client dynamic.Interface, kind string, review any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind(kind))
	resource := authorizationv1.SchemeGroupVersion.WithResource(strings.ToLower(kind) + "s")
	answer, err := client.Resource(resource).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, review)
}

func attributes(resource schema.GroupVersionResource, namespace, name, verb string) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Namespace: namespace, Name: name, Verb: verb,
	}
}

// needed are the verbs that the controller needs to delete objects of a kind: it has to find them
// first.
var needed = []string{"delete", "list", "watch", "get"}

// review asks whether Curfew's controller, by its user name, may delete objects of a kind.
func (c *cluster) review(ctx context.Context, kind Kind, namespace, controller string) (permission, error) {
	return c.access.get(kind.GroupResource().String()+" "+namespace, func() (permission, error) {
		for _, verb := range needed {
			if c.noReviews.Load() {
				return permission{}, nil
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: attributes(kind.At(), namespace, "", verb), User: controller, Groups: groupsOf(controller),
			}}
			err := ask(ctx, c.clients.Objects, "SubjectAccessReview", review)
			switch {
			case apierrors.IsForbidden(err):
				c.noReviews.Store(true)
				return permission{}, nil
			case err != nil:
				return permission{}, fmt.Errorf("asking whether %s may %s %s: %w", controller, verb, kind.GroupResource(), err)
			case !review.Status.Allowed:
				return permission{rules.No, verb}, nil
			}
		}
		return permission{answer: rules.Yes}, nil
	})
}

// groupsOf are the groups that a token of a ServiceAccount gives its bearer.
func groupsOf(username string) []string {
	namespace, _, err := serviceaccount.SplitUsername(username)
	if err != nil {
		return nil
	}
	return append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated)
}

// Account reads as the service account of a cleanup policy, or as the user.
type Account struct {
	survey.Clients
	Name types.NamespacedName
	// Own means that it reads as the user, who may not impersonate the account.
	Own bool
}

// Self reads as the user.
func (c *cluster) Self() *Account {
	return &Account{Clients: survey.Clients{Objects: c.clients.Objects, Metadata: c.clients.Metadata}, Own: true}
}

// AccountOf impersonates a service account if the user may. The zero name is the account of
// policies that name none, in Curfew's namespace, by the name that manifests/rbac gives it.
func (c *cluster) AccountOf(ctx context.Context, name types.NamespacedName, curfew string) (*Account, error) {
	if name.Name == "" {
		name = types.NamespacedName{Namespace: curfew, Name: "curfew-cleanup"}
	}
	own := c.Self()
	own.Name = name
	if c.clients.As == nil {
		return own, nil
	}
	accounts := corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	if may, err := allowed(ctx, own.Objects, attributes(accounts, name.Namespace, name.Name, "impersonate")); err != nil || !may {
		if err != nil {
			err = fmt.Errorf("asking who may impersonate %s: %w", accounts.GroupResource(), err)
		}
		return own, err
	}
	as, err := c.clients.As(fmt.Sprintf("system:serviceaccount:%s:%s", name.Namespace, name.Name))
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
	for _, verb := range verbs {
		may, err := allowed(ctx, a.Objects, attributes(resource, namespace, "", verb))
		if err != nil {
			return "", fmt.Errorf("asking who may %s %s: %w", verb, resource.GroupResource(), err)
		}
		if !may {
			return verb, nil
		}
	}
	return "", nil
}

// Probe is whether the API server calls the webhooks.
type Probe struct {
	// Tried is false where the user may not create Namespaces.
	Tried bool
	probe.Result
}

// Probe finds out whether the API server calls the webhooks. Nothing is stored.
func (c *cluster) Probe(ctx context.Context) (Probe, error) {
	kind := Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: "namespaces"}
	if may, err := c.MayI(ctx, kind, "", "", "create"); err != nil || !may {
		return Probe{}, err
	}
	result, err := probe.Try(ctx, c.objects(namespaceResource, ""))
	return Probe{Tried: err == nil, Result: result}, err
}
