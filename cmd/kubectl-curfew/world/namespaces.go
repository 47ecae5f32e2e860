package world

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsNamespace reports whether the kind is Namespace.
func (k Kind) IsNamespace() bool { return k.GroupResource() == namespaceResource.GroupResource() }

// NamespaceEntries are the entries of a Namespace itself, or of all for ""; none of what the user
// may not read.
func (w *World) NamespaceEntries(ctx context.Context, name string, now time.Time) ([]Entry, error) {
	kind, ok, err := w.Kind(namespaceResource.GroupResource())
	if err != nil || !ok {
		return nil, err
	}
	if name == "" {
		var out []Entry
		err := w.List(ctx, kind, Query{}, func(object map[string]any) error {
			entries, err := w.Entries(ctx, kind, object, now)
			out = append(out, entries...)
			return err
		})
		if Refused(err) {
			w.lack("list namespaces")
			err = nil
		}
		return out, err
	}
	read, err := w.clients.Objects.Resource(namespaceResource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return w.Entries(ctx, kind, read.Object, now)
}
