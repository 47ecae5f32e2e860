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

// needed are the verbs without which the controller has nothing of a kind deleted: it has to see what is there, too.
var needed = []string{"delete", "list", "watch", "get"}

// permission is whether Curfew's controller may do what it takes to delete, and where it may not, the verb that it lacks.
type permission struct {
	answer rules.Answer
	lacks  string
}

// controllerMay asks whether Curfew's controller may delete objects of a kind in a namespace. Most users may not ask what others may do;
// the answer is then unknown.
func (w *World) controllerMay(ctx context.Context, kind Kind, namespace string) (permission, error) {
	if kind.ClusterScoped {
		namespace = ""
	}
	// What it may do everywhere it may do here.
	everywhere, err := w.review(ctx, kind, "")
	if err != nil || everywhere.answer != rules.No || namespace == "" {
		return everywhere, err
	}
	return w.review(ctx, kind, namespace)
}

func (w *World) review(ctx context.Context, kind Kind, namespace string) (permission, error) {
	key := kind.GroupResource().String() + " " + namespace
	w.mu.Lock()
	known, ok := w.access[key]
	never := w.noReviews
	w.mu.Unlock()
	if ok || never {
		return known, nil
	}
	out := permission{answer: rules.Yes}
	for _, verb := range needed {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: attributes(kind, namespace, "", verb), User: w.Controller.User, Groups: serviceAccountGroups(w.Controller.User),
		}}
		answer, err := w.clients.Authorization.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.noReviews = true
			return permission{}, nil
		}
		if err != nil {
			return permission{}, fmt.Errorf("asking whether %s may %s %s: %w", w.Controller.User, verb, kind.GroupResource(), err)
		}
		if !answer.Status.Allowed {
			out = permission{rules.No, verb}
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.access[key] = out
	return out, nil
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
