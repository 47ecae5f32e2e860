package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// MayI asks whether the user may use a verb on an object.
func (w *World) MayI(ctx context.Context, kind Kind, namespace, name, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: attributes(kind, namespace, name, verb),
	}}
	if err := w.ask(ctx, "SelfSubjectAccessReview", review); err != nil {
		return false, fmt.Errorf("asking whether you may %s %s: %w", verb, kind.Name(name), err)
	}
	return review.Status.Allowed, nil
}

// MayUpdatePolicy asks whether the user may update a LifecyclePolicy, which exempts from its
// bounds.protect.
func (w *World) MayUpdatePolicy(ctx context.Context, name string) rules.Answer {
	kind := Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind("LifecyclePolicy"), Resource: v1alpha1.LifecyclePolicies}
	answer, _ := w.updates.get(name, func() (rules.Answer, error) { // Without an answer the bound applies, as in admission.
		may, err := w.MayI(ctx, kind, "", name, "update")
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

// ask creates a review and reads the answer into it. client-go's typed client would link every API
// type.
func (w *World) ask(ctx context.Context, kind string, review any) error {
	return ask(ctx, w.clients.Objects, kind, review)
}

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

func attributes(kind Kind, namespace, name, verb string) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Namespace: namespace, Name: name, Verb: verb,
	}
}

// needed are the verbs that the controller needs to delete objects of a kind: it has to find them
// first.
var needed = []string{"delete", "list", "watch", "get"}

// permission says whether Curfew's controller has all needed verbs, and which one it lacks.
type permission struct {
	answer rules.Answer
	lacks  string
}

// controllerMay asks whether Curfew's controller may delete objects of a kind in a namespace. The
// answer is unknown for most users, who may not ask what others may do.
func (w *World) controllerMay(ctx context.Context, kind Kind, namespace string) (permission, error) {
	if kind.ClusterScoped {
		namespace = ""
	}
	// A permission in the whole cluster includes this namespace.
	everywhere, err := w.review(ctx, kind, "")
	if err != nil || everywhere.answer != rules.No || namespace == "" {
		return everywhere, err
	}
	return w.review(ctx, kind, namespace)
}

func (w *World) review(ctx context.Context, kind Kind, namespace string) (permission, error) {
	return w.access.get(kind.GroupResource().String()+" "+namespace, func() (permission, error) {
		for _, verb := range needed {
			if w.noReviews.Load() {
				return permission{}, nil
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: attributes(kind, namespace, "", verb), User: w.Controller.User, Groups: groupsOf(w.Controller.User),
			}}
			err := w.ask(ctx, "SubjectAccessReview", review)
			switch {
			case apierrors.IsForbidden(err):
				w.noReviews.Store(true)
				return permission{}, nil
			case err != nil:
				return permission{}, fmt.Errorf("asking whether %s may %s %s: %w", w.Controller.User, verb, kind.GroupResource(), err)
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

// answers remembers by key each answer, and each refusal. It does not remember other errors.
type answers[V any] struct {
	mu    sync.Mutex
	known map[string]answer[V]
}

type answer[V any] struct {
	value V
	err   error
}

func (a *answers[V]) get(key string, read func() (V, error)) (V, error) {
	a.mu.Lock()
	known, ok := a.known[key]
	a.mu.Unlock()
	if ok {
		return known.value, known.err
	}
	value, err := read()
	if err == nil || errors.Is(err, platform.ErrUnknown) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.known == nil {
			a.known = map[string]answer[V]{}
		}
		a.known[key] = answer[V]{value, err}
	}
	return value, err
}
