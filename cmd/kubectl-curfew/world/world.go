package world

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Options of a world.
type Options struct {
	// Builtin are the built-in profiles.
	Builtin []*v1alpha1.KindProfile
	// Namespace that Curfew runs in.
	Namespace string
	Now       time.Time
	// Version of the command line.
	Version string
	// Policies and Profiles are treated as if they were applied now.
	Policies []*v1alpha1.LifecyclePolicy
	Profiles []*v1alpha1.KindProfile
}

// World is everything that decides about expiry, as far as the user may read it. It is safe for
// concurrent use.
type World struct {
	// Controller is how Curfew's controller runs.
	Controller Controller
	// Pauses of deletions and stops.
	Pauses Pauses

	cluster
	options Options

	namespaces answers[*resolution.NamespacePolicy]
	runtimes   answers[map[string]any]
	counters   answers[*resolution.PodCounter]
	pauses     answers[[]judging.Obstacle]
	histories  answers[map[types.NamespacedName]string]
	blockedBy  answers[map[blockage]judging.Obstacle] // by namespace: see blockedIn
	fates      answers[fate]                          // of owners and Namespaces
	ownersRead atomic.Int64
}

// Platform has the profiles and policies.
func (w *World) Platform() *platform.Snapshot { return w.platform }

// NoNamespace is an error if a namespace does not exist, as far as the user may see.
func (w *World) NoNamespace(ctx context.Context, name string) error {
	_, err := w.clients.Metadata.Resource(namespaceResource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %q: give another", name)
	}
	return nil
}

// Namespace reads a namespace that has to exist.
func (w *World) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	object, err := w.clients.Metadata.Resource(namespaceResource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not get namespace %q: ask for the verb get on it", name)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no namespace %q: give another", name)
	case err != nil:
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return resolution.NamespaceOf(&object.ObjectMeta), nil
}

// NamespacesFor are the namespaces that a cleanup policy selects from; only one, if it is given.
func (w *World) NamespacesFor(ctx context.Context, p *cleanup.Policy, only string) ([]*resolution.NamespacePolicy, error) {
	if _, all := p.Namespaces(nil); all || p.Namespace != "" {
		return nil, nil
	}
	if only != "" {
		namespace, err := w.Source().Namespace(ctx, only)
		return []*resolution.NamespacePolicy{namespace}, err
	}
	var out []*resolution.NamespacePolicy
	err := w.eachMetadata(ctx, namespaceResource, "", metav1.ListOptions{}, func(object *metav1.PartialObjectMetadata) error {
		out = append(out, resolution.NamespaceOf(&object.ObjectMeta))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing those that the namespaceSelector may match: %w", err)
	}
	return out, nil
}

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
	newPass := func(metadata bool, fields string, selectors ...string) pass {
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
		out := []pass{newPass(slim, "", wellknown.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, newPass(slim, "", alias))
		}
		return out
	case kind.Group == "" && kind.Resource == "pods" && !query.Unfinished:
		const running = "status.phase!=Succeeded,status.phase!=Failed"
		const finished = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
		out := []pass{newPass(false, running, wellknown.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, newPass(false, running, alias))
		}
		return append(out, newPass(false, finished)) // last, so that a Pod that finishes in between is not missed
	default:
		return []pass{newPass(false, "")}
	}
}

// EachOf passes the objects of a kind that may expire to take, page by page. An object can come
// twice; its last state applies.
func (w *World) EachOf(ctx context.Context, kind Kind, query Query, take func(object map[string]any) error) error {
	for _, pass := range w.passes(kind, query) {
		var err error
		if pass.metadata {
			err = w.eachMetadata(ctx, kind.At(), pass.namespace, pass.options, func(object *metav1.PartialObjectMetadata) error {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
				if err != nil {
					return err
				}
				content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind // Metadata has another kind.
				return take(content)
			})
		} else {
			err = w.Each(ctx, kind.At(), pass.namespace, pass.options, func(object *unstructured.Unstructured) error { return take(object.Object) })
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
	}
	return nil
}

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

// Source reads the namespaces, policies and runtimes that decide about objects, as the user.
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
			s.Lack("get namespaces/%s", name)
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
		resource := reference.Kind.GroupVersion().WithResource(reference.Resource)
		read, err := s.objects(resource, reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			s.Lack("get %s", reference)
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
		read, err := s.objects(jobs, pod.Namespace).Get(ctx, pod.Owner.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			s.Lack("get jobs/%s in namespace %s", pod.Owner.Name, pod.Namespace)
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
		list, err := s.objects(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies), pod.Namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			s.Lack("list podtallies in namespace %s", pod.Namespace)
			return nil, platform.ErrUnknown
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing PodTallies of namespace %q: %w", pod.Namespace, err)
		}
		for i := range list.Items {
			if list.Items[i].GetUID() == pod.CountedBy() {
				return tally.CounterOf(list.Items[i].Object), nil
			}
		}
		return nil, nil
	})
}
