package world

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// pageSize is how many objects are read at once.
const pageSize = 500

// Query selects objects.
type Query struct {
	// Namespace is "" for all. It does not limit cluster-scoped kinds.
	Namespace string
	// Selector of labels, as kubectl takes it.
	Selector string
	// Unfinished includes unfinished objects where that takes a wider list: of Pods.
	Unfinished bool
}

// pass is one list of objects of a kind. The passes of a query do not overlap.
type pass struct {
	options metav1.ListOptions
	// metadata: nothing else is read.
	metadata  bool
	namespace string
}

// passes read as little as the API allows: all objects of kinds that finish, and of others the
// metadata of those with the label.
func (w *World) passes(kind Kind, query Query) []pass {
	if kind.ClusterScoped {
		query.Namespace = ""
	}
	of := func(metadata bool, fields string, selectors ...string) pass {
		if query.Selector != "" {
			selectors = append(selectors, query.Selector)
		}
		return pass{metadata: metadata, namespace: query.Namespace,
			options: metav1.ListOptions{LabelSelector: strings.Join(selectors, ","), FieldSelector: fields}}
	}
	const alias = policy.LabelKyvernoTTL + ",!" + policy.LabelTTL
	switch {
	case kind.Profile.State == nil:
		// The bounds of some policies depend on more than metadata.
		slim := !w.needsObjects(kind)
		out := []pass{of(slim, "", policy.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, of(slim, "", alias))
		}
		return out
	case kind.Group == "" && kind.Resource == "pods" && !query.Unfinished:
		const running, finished = "status.phase!=Succeeded,status.phase!=Failed", "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
		out := []pass{of(false, running, policy.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, of(false, running, alias))
		}
		return append(out, of(false, finished)) // last, so that a Pod that finishes in between is not missed
	default:
		return []pass{of(false, "")}
	}
}

func (w *World) needsObjects(kind Kind) bool {
	return expression.NeedsWhole(w.platform.Concerning(kind.GroupKind()))
}

// List passes the objects of a kind that may expire to take, page by page. An object can come
// twice; its last state applies.
func (w *World) List(ctx context.Context, kind Kind, query Query, take func(object map[string]any) error) error {
	for _, pass := range w.passes(kind, query) {
		list := w.lister(kind.At(), pass.namespace)
		if pass.metadata {
			metadata := w.clients.Metadata.Resource(kind.At()).Namespace(pass.namespace)
			list = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return metadata.List(ctx, options)
			}
		}
		err := pages(ctx, list, pass.options, func(item runtime.Object) error {
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
			if err != nil {
				return err
			}
			object["apiVersion"], object["kind"] = kind.GroupVersion().String(), kind.Kind // Metadata has another kind.
			return take(object)
		})
		if err != nil {
			return fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
	}
	return nil
}

// lister is one list request.
type lister func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)

func (w *World) lister(at schema.GroupVersionResource, namespace string) lister {
	resource := w.clients.Objects.Resource(at).Namespace(namespace)
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return resource.List(ctx, options)
	}
}

// pages passes the items of a list to take, page by page. A list that expires on the API server is
// read again in one piece, so that an item can come twice.
func pages(ctx context.Context, list lister, options metav1.ListOptions, take func(item runtime.Object) error) error {
	options.Limit = pageSize
	for {
		page, err := list(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			options.Continue, options.Limit = "", 0
			continue
		}
		if err != nil {
			return err
		}
		if err := meta.EachListItem(page, take); err != nil {
			return err
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if options.Continue = accessor.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// Refused reports whether the user lacks a permission.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// Gone reports whether the kind is not served any more, or cannot be listed.
func Gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }

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
