package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Explain gathers the context of an object and explains it at the instant now. The object may be
// metadata alone where its kind has no profile.
func (w *World) Explain(ctx context.Context, kind Kind, object map[string]any, now time.Time) (*policy.Explanation, error) {
	facts := policy.FactsOfObject(kind.Profile, object)
	scope, err := w.scopeOf(ctx, facts, object)
	if err != nil {
		return nil, err
	}
	return policy.Explain(facts, scope, policy.Question{Now: now, Alias: w.Controller.Alias}), nil
}

func (w *World) scopeOf(ctx context.Context, facts *policy.Facts, object map[string]any) (*policy.Scope, error) {
	found, err := platform.ContextOf(ctx, source{w}, platform.Whole(facts, object))
	if err != nil {
		return nil, err
	}
	for _, failure := range found.Failures {
		w.note("%s; objects that it may concern are kept", failure)
	}
	found.LeaveNative = w.Controller.LeaveNative
	found.Protected = policy.Protects(w.Controller.Protect, facts.Namespace)
	return &found.Scope, nil
}

// Source reads what decides how an object is treated, as the user.
func (w *World) Source() platform.Source { return source{w} }

// source is the [platform.Source] of a command: it reads everything once, as the user.
type source struct{ *World }

// Snapshot implements [platform.Source].
func (s source) Snapshot(context.Context) (*platform.Snapshot, error) { return s.platform, nil }

// Namespace implements [platform.Source].
func (s source) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	return s.namespaces.get(name, func() (*policy.NamespacePolicy, error) {
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
		return policy.NamespaceOf(&object.ObjectMeta), nil
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
func (s source) PodCounter(ctx context.Context, pod *policy.Facts) (*policy.PodCounter, error) {
	if !pod.OwnedByJob() {
		return s.tallyOf(ctx, pod)
	}
	jobs := policy.JobProfile.Kind.GroupVersion().WithResource(policy.JobProfile.Resource)
	key := fmt.Sprintf("%s/%q", pod.Namespace, []string{pod.Owner.Name, string(pod.Owner.UID)}) // The Pod's author chooses both.
	return s.counters.get(key, func() (*policy.PodCounter, error) {
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
		return policy.CounterOfOwner(read.Object)
	})
}

// tallyOf is the PodTally that counted a Pod; nil if it is gone.
func (s source) tallyOf(ctx context.Context, pod *policy.Facts) (*policy.PodCounter, error) {
	return s.counters.get(pod.Namespace+"/"+string(pod.CountedBy()), func() (*policy.PodCounter, error) {
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
