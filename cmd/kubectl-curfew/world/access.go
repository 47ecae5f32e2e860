package world

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/rules"
)

// MayI asks whether the user may use a verb on an object.
func (w *World) MayI(ctx context.Context, kind Kind, namespace, name, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: attributes(kind, namespace, name, verb),
	}}
	answer, err := w.clients.Authorization.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether you may %s %s: %w", verb, kind.Name(name), err)
	}
	return answer.Status.Allowed, nil
}

func attributes(kind Kind, namespace, name, verb string) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Namespace: namespace, Name: name, Verb: verb,
	}
}

// ControllerMayDelete asks whether Curfew's controller may delete objects of a kind in a namespace. Most users may not ask what others
// may do; the answer is then unknown.
func (w *World) ControllerMayDelete(ctx context.Context, kind Kind, namespace string) (rules.Answer, error) {
	if kind.ClusterScoped {
		namespace = ""
	}
	// What it may do everywhere it may do here.
	everywhere, err := w.review(ctx, kind, "")
	if err != nil || everywhere != rules.No || namespace == "" {
		return everywhere, err
	}
	return w.review(ctx, kind, namespace)
}

func (w *World) review(ctx context.Context, kind Kind, namespace string) (rules.Answer, error) {
	key := kind.GroupResource().String() + " " + namespace
	w.mu.Lock()
	known, ok := w.access[key]
	never := w.noReviews
	w.mu.Unlock()
	if ok || never {
		return known, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: attributes(kind, namespace, "", "delete"), User: w.Controller.User, Groups: serviceAccountGroups(w.Controller.User),
	}}
	answer, err := w.clients.Authorization.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err):
		w.noReviews = true
		return rules.Unknown, nil
	case err != nil:
		return rules.Unknown, fmt.Errorf("asking whether %s may delete %s: %w", w.Controller.User, kind.GroupResource(), err)
	case answer.Status.Allowed:
		w.access[key] = rules.Yes
	default:
		w.access[key] = rules.No
	}
	return w.access[key], nil
}

func serviceAccountGroups(user string) []string {
	namespace, ok := namespaceOfAccount(user)
	if !ok {
		return nil
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}

// namespaceOfAccount takes system:serviceaccount:NAMESPACE:NAME apart.
func namespaceOfAccount(user string) (string, bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, _, found := strings.Cut(rest, ":")
	return namespace, ok && found
}
