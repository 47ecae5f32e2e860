package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

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
	const alias = wellknown.LabelKyvernoTTL + ",!" + wellknown.LabelTTL
	switch {
	case kind.Profile.State == nil:
		// The bounds of some policies depend on more than metadata.
		slim := !expression.NeedsWhole(w.platform.Concerning(kind.GroupKind()))
		out := []pass{of(slim, "", wellknown.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, of(slim, "", alias))
		}
		return out
	case kind.Group == "" && kind.Resource == "pods" && !query.Unfinished:
		const running, finished = "status.phase!=Succeeded,status.phase!=Failed", "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
		out := []pass{of(false, running, wellknown.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, of(false, running, alias))
		}
		return append(out, of(false, finished)) // last, so that a Pod that finishes in between is not missed
	default:
		return []pass{of(false, "")}
	}
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

// pages passes the items of a list to take, page by page. Where the list expires on the API server,
// it goes on with newer objects, so that an item can come twice (see [paging.Resume]).
func pages(ctx context.Context, list lister, options metav1.ListOptions, take func(item runtime.Object) error) error {
	_, err := paging.Each(ctx, options, list, func(page runtime.Object) error { return meta.EachListItem(page, take) })
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

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Explain gathers the context of an object and explains it at the instant now. The object may be
// metadata alone where its kind has no profile.
func (w *World) Explain(ctx context.Context, kind Kind, object map[string]any, now time.Time) (*judging.Explanation, error) {
	facts := policy.FactsOfObject(kind.Profile, object)
	scope, err := w.scopeOf(ctx, facts, object)
	if err != nil {
		return nil, err
	}
	return judging.Explain(facts, scope, judging.Question{Now: now, Alias: w.Controller.Alias}), nil
}

func (w *World) scopeOf(ctx context.Context, facts *policy.Facts, object map[string]any) (*resolution.Scope, error) {
	found, err := platform.ContextOf(ctx, source{w}, platform.Whole(facts, object))
	if err != nil {
		return nil, err
	}
	for _, failure := range found.Failures {
		w.note("%s; objects that it may concern are kept", failure)
	}
	found.LeaveNative = w.Controller.LeaveNative
	found.Protected = judging.Protects(w.Controller.Protect, facts.Namespace)
	return &found.Scope, nil
}

// Source reads what decides how an object is treated, as the user.
func (w *World) Source() platform.Source { return source{w} }

// source is the [platform.Source] of a command: it reads everything once, as the user.
type source struct{ *World }

// Snapshot implements [platform.Source].
func (s source) Snapshot(context.Context) (*platform.Snapshot, error) { return s.platform, nil }

// Namespace implements [platform.Source].
func (s source) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	return s.namespaces.get(name, func() (*resolution.NamespacePolicy, error) {
		object, err := s.clients.Metadata.Resource(namespaceResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			s.lack("get namespaces/%s", name)
			return nil, platform.ErrUnknown
		case apierrors.IsNotFound(err):
			return nil, platform.ErrUnknown
		case err != nil:
			return nil, fmt.Errorf("reading namespace %q: %w", name, err)
		}
		return resolution.NamespaceOf(&object.ObjectMeta), nil
	})
}

// Runtime implements [platform.Source].
func (s source) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	return s.runtimes.get(reference.Kind.GroupKind().String()+" "+reference.String(), func() (map[string]any, error) {
		at := reference.Kind.GroupVersion().WithResource(reference.Resource)
		read, err := s.clients.Objects.Resource(at).Namespace(reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			s.lack("get %s", reference)
			return nil, platform.ErrUnknown
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return read.Object, nil
	})
}

// PodCounter implements [platform.Source].
func (s source) PodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	if !pod.OwnedByJob() {
		return s.tallyOf(ctx, pod)
	}
	jobs := policy.JobProfile.Kind.GroupVersion().WithResource(policy.JobProfile.Resource)
	key := fmt.Sprintf("%s/%q", pod.Namespace, []string{pod.Owner.Name, string(pod.Owner.UID)}) // The Pod's author chooses both.
	return s.counters.get(key, func() (*resolution.PodCounter, error) {
		read, err := s.clients.Objects.Resource(jobs).Namespace(pod.Namespace).Get(ctx, pod.Owner.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			s.lack("get jobs/%s in namespace %s", pod.Owner.Name, pod.Namespace)
			return nil, platform.ErrUnknown
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading Job %s/%s: %w", pod.Namespace, pod.Owner.Name, err)
		case read.GetUID() != pod.Owner.UID:
			return nil, nil
		}
		return resolution.CounterOfOwner(read.Object)
	})
}

// tallyOf is the PodTally that counted a Pod; nil if it is gone.
func (s source) tallyOf(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	return s.counters.get(pod.Namespace+"/"+string(pod.CountedBy()), func() (*resolution.PodCounter, error) {
		list, err := s.clients.Objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(pod.Namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			s.lack("list podtallies in namespace %s", pod.Namespace)
			return nil, platform.ErrUnknown
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing PodTallies of namespace %q: %w", pod.Namespace, err)
		}
		for i := range list.Items {
			if list.Items[i].GetUID() == pod.CountedBy() {
				return tally.CounterOf(list.Items[i].Object)
			}
		}
		return nil, nil
	})
}

// ErrNotServed says that objects of a kind cannot expire: it is not served, or lacks list, watch or
// delete.
var ErrNotServed = errors.New("objects of this kind cannot expire: the API server does not list, watch and delete them")
