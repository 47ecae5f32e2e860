package world

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Presence is the result of reading one object.
type Presence int

// The values of a [Presence].
const (
	// Unread means that the user lacks the permission.
	Unread Presence = iota
	Missing
	Found
)

// Read reads an object of a namespace, or with "" a cluster-scoped one. That the user may not,
// or that there is none, is no error.
func Read[T any](ctx context.Context, w *World, at schema.GroupVersionResource, namespace, name string) (*T, Presence, error) {
	object, err := w.clients.Objects.Resource(at).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, Unread, nil
	case apierrors.IsNotFound(err):
		return nil, Missing, nil
	case err != nil:
		return nil, Unread, fmt.Errorf("reading %s %s: %w", at.GroupResource(), name, err)
	}
	return typed[T](object.Object, at, name)
}

func typed[T any](object map[string]any, at schema.GroupVersionResource, name string) (*T, Presence, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, out); err != nil {
		return nil, Unread, fmt.Errorf("reading %s %s: %w", at.GroupResource(), name, err)
	}
	return out, Found, nil
}

// Items reads the objects of a kind in a namespace that a selector of labels matches.
func Items[T any](ctx context.Context, w *World, at schema.GroupVersionResource, namespace, selector string) ([]*T, Presence, error) {
	var out []*T
	err := pages(ctx, w.lister(at, namespace), metav1.ListOptions{LabelSelector: selector}, func(item runtime.Object) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return err
		}
		read, _, err := typed[T](content, at, "")
		out = append(out, read)
		return err
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, Unread, nil
	case err != nil:
		return nil, Unread, fmt.Errorf("listing %s: %w", at.GroupResource(), err)
	}
	return out, Found, nil
}
