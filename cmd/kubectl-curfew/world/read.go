package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
)

// cluster is the API server as the user sees it: kinds, objects, permissions, and notes about what
// the user may not read.
type cluster struct {
	clients Clients
	// discover asks once which kinds are served.
	discover func() (discovered, error)
	platform *platform.Snapshot
	// unfed are kinds whose finished objects the controller does not look for, despite their
	// profile.
	unfed map[schema.GroupKind]bool

	mu    sync.Mutex
	notes []string
	// lacks are permissions that a full answer takes, such as "get namespaces/foo".
	lacks []string

	updates answers[rules.Answer] // of LifecyclePolicies, by name
	access  answers[permission]
	// noReviews: the user may not ask what others may do.
	noReviews atomic.Bool
}

// discovered are the groups, most important first, and what each version serves.
type discovered struct {
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	// silent are groups that do not answer.
	silent []string
}

// permission says whether Curfew's controller has all needed verbs, and which one it lacks.
type permission struct {
	answer rules.Answer
	lacks  string
}

// ServerTime is the API server's time, or the local one where that is not known.
func (c *cluster) ServerTime(ctx context.Context, local time.Time) time.Time {
	if c.clients.ServerTime != nil {
		if t, err := c.clients.ServerTime(ctx); err == nil {
			return t.In(local.Location())
		}
	}
	return local
}

// Note keeps a note for the user, once.
func (c *cluster) Note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

func (c *cluster) note(format string, values ...any) { c.Note(fmt.Sprintf(format, values...)) }

// Lack keeps a permission that the user lacks for the one note about all of them.
func (c *cluster) Lack(format string, values ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := fmt.Sprintf(format, values...); !slices.Contains(c.lacks, text) {
		c.lacks = append(c.lacks, text)
	}
}

// lacksShown is how many permissions the note names.
const lacksShown = 2

// Notes say what could not be read, and what that means for the answer.
func (c *cluster) Notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lacks) == 0 {
		return slices.Clone(c.notes)
	}
	named := slices.Sorted(slices.Values(c.lacks))
	if more := len(named) - lacksShown; more > 0 {
		named = append(named[:lacksShown], fmt.Sprintf("%d more", more))
	}
	permits := "component tenant-view permits it"
	if slices.ContainsFunc(c.lacks, func(lack string) bool { return strings.HasPrefix(lack, "get namespaces/") }) {
		permits = "component tenant-view and role view permit it"
	}
	note := "you may not " + strings.Join(named, ", ") + ": what they say is not known; " + permits
	return append([]string{note}, c.notes...)
}

// objects is the client of a resource in a namespace, or with "" in all of them.
func (c *cluster) objects(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	return c.clients.Objects.Resource(resource).Namespace(namespace)
}

// Each passes the objects of a resource in a namespace, or with "" in all of them, to take.
func (c *cluster) Each(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions,
	take func(*unstructured.Unstructured) error) error {
	return Pages(ctx, c.objects(resource, namespace).List, options, func(item runtime.Object) error {
		object, _ := item.(*unstructured.Unstructured)
		return take(object)
	})
}

// eachMetadata is Each for the metadata alone.
func (c *cluster) eachMetadata(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions,
	take func(*metav1.PartialObjectMetadata) error) error {
	return Pages(ctx, c.clients.Metadata.Resource(resource).Namespace(namespace).List, options, func(item runtime.Object) error {
		object, _ := item.(*metav1.PartialObjectMetadata)
		return take(object)
	})
}

// Pages passes the items of a list to take, page by page. A list that takes longer than the API
// server keeps its snapshot goes on with newer objects (see [watch.Resume]).
func Pages[L runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions,
	take func(item runtime.Object) error) error {
	_, err := watch.Each(ctx, options, list, func(page L) error { return meta.EachListItem(page, take) })
	return err
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
func Read[T any](ctx context.Context, w *World, resource schema.GroupVersionResource, namespace, name string) (*T, Presence, error) {
	object, err := w.objects(resource, namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, Unread, nil
	case apierrors.IsNotFound(err):
		return nil, Missing, nil
	case err != nil:
		return nil, Unread, fmt.Errorf("reading %s %s: %w", resource.GroupResource(), name, err)
	}
	out, err := typed[T](object)
	if err != nil {
		return nil, Unread, err
	}
	return out, Found, nil
}

// typed decodes an object into a type of its kind, or leaves it unstructured.
func typed[T any](object *unstructured.Unstructured) (*T, error) {
	if out, ok := any(object).(*T); ok {
		return out, nil
	}
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out); err != nil {
		return nil, fmt.Errorf("%s %s has a form that this version does not know: %w", object.GetKind(), object.GetName(), err)
	}
	return out, nil
}

// Items reads the objects of a kind in a namespace that a selector of labels matches.
func Items[T any](ctx context.Context, w *World, resource schema.GroupVersionResource, namespace, selector string) ([]*T, Presence, error) {
	var out []*T
	err := w.Each(ctx, resource, namespace, metav1.ListOptions{LabelSelector: selector}, func(object *unstructured.Unstructured) error {
		read, err := typed[T](object)
		out = append(out, read)
		return err
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, Unread, nil
	case err != nil:
		return nil, Unread, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	return out, Found, nil
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

// UIDOf is the UID of an object.
func UIDOf(object map[string]any) types.UID {
	return (&unstructured.Unstructured{Object: object}).GetUID()
}

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
