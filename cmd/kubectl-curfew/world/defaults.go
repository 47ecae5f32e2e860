package world

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Defaults are what admission fills into any new object of a kind in a namespace.
type Defaults struct {
	Kind                        Kind
	Succeeded, Failed, Deadline resolution.Value
	// Label is "" where none is given. LabelFrom is its setting, or the one that cannot be used.
	Label     string
	LabelFrom *lifetime.Setting
	Bounds    []*lifetime.Setting
	// Depends are what looks at the object, and so may give it something else.
	Depends []string
	// Unusable are settings that cannot be used, for other kinds of outcomes too.
	Unusable []*lifetime.Setting
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

// Defaults returns the defaults that admission would give a new object of a kind, by kind alone, in
// a namespace. Policies that look at the object decide nothing here, and are named instead.
func (w *World) Defaults(ctx context.Context, kind Kind, namespace *resolution.NamespacePolicy, now time.Time) (*Defaults, error) {
	object := map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": map[string]any{"namespace": namespace.Name},
		"spec": map[string]any{"restartPolicy": "Never"}, // or a Pod would have none
	}
	out := &Defaults{Kind: kind}
	facts := policy.FactsOfObject(kind.Profile, object)
	found, err := platform.ContextOf(ctx, source{w}, platform.Whole(facts, object))
	if err != nil {
		return nil, err
	}
	scope := &found.Scope
	if w.platform.RuntimeOf(kind.GroupKind()) != nil {
		scope.Runtime, out.Depends = nil, append(out.Depends, "its runtime")
	}
	for _, each := range w.platform.Concerning(kind.GroupKind()) {
		if each.VariesIn(namespace) {
			out.Depends = append(out.Depends, "policy/"+each.Name)
			scope.Policies = slices.DeleteFunc(scope.Policies, func(of *resolution.PlatformPolicy) bool { return of.Name == each.Name })
		}
	}
	scope.Creating, scope.Off, scope.Protected = true, w.Controller.Off, judging.Protects(w.Controller.Protect, namespace.Name)
	effective := resolution.Resolve(facts, scope)
	out.Succeeded, out.Failed, out.Deadline = effective.Succeeded, effective.Failed, effective.Deadline
	out.Label, out.LabelFrom = resolution.DefaultLabel(facts, scope, now)
	out.Bounds = scope.BoundsFor(facts, resolution.AllBounds).Settings()
	settings := slices.Concat(namespace.Settings(), out.Bounds)
	for _, of := range scope.Policies {
		settings = slices.Concat(settings, of.TTL.Settings(), of.Bounds.Settings())
		for _, one := range []*lifetime.Setting{of.Deadline, of.LatestUnreadable} {
			if one != nil {
				settings = append(settings, one)
			}
		}
	}
	if out.LabelFrom != nil {
		settings = append(settings, out.LabelFrom)
	}
	for _, one := range settings {
		if one.Err != nil && !slices.Contains(out.Unusable, one) {
			out.Unusable = append(out.Unusable, one)
		}
	}
	return out, nil
}

// Tally is a PodTally with the counts of its Pods.
type Tally struct {
	*v1alpha1.PodTally
	// Oldest is when the first of the uncounted Pods finished; zero where that is not known.
	Oldest time.Time
}

// Uncounted is how many finished Pods are being counted.
func (t *Tally) Uncounted() int { return len(t.uncounted()) }

func (t *Tally) uncounted() []types.UID {
	if listed := t.Status.UncountedTerminatedPods; listed != nil {
		return slices.Concat(listed.Succeeded, listed.Failed)
	}
	return nil
}

// PerHour is how many Pods have been counted an hour, on average.
func (t *Tally) PerHour(now time.Time) float64 {
	if t.Status.StartTime == nil || !now.After(t.Status.StartTime.Time) {
		return 0
	}
	return float64(t.Status.Succeeded+t.Status.Failed) / now.Sub(t.Status.StartTime.Time).Hours()
}

// Tallies are the PodTallies of a namespace, of all with "", and with a name that one.
func (w *World) Tallies(ctx context.Context, namespace, name string) ([]*Tally, error) {
	at := v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)
	read, presence, err := Items[v1alpha1.PodTally](ctx, w, at, namespace, "")
	switch {
	case err != nil:
		return nil, err
	case presence == Unread:
		return nil, fmt.Errorf("you may not list %s: ask for a role that allows it", at.GroupResource())
	}
	var out []*Tally
	for _, each := range read {
		if name != "" && each.Name != name {
			continue
		}
		one := &Tally{PodTally: each}
		if err := w.oldest(ctx, one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if name != "" && len(out) == 0 {
		return nil, fmt.Errorf("there is no PodTally %q in namespace %q", name, namespace)
	}
	slices.SortFunc(out, func(a, b *Tally) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// oldest reads when the uncounted Pods finished, if there are any and the user may list Pods.
func (w *World) oldest(ctx context.Context, of *Tally) error {
	uncounted := of.uncounted()
	if len(uncounted) == 0 {
		return nil
	}
	at := corev1.SchemeGroupVersion.WithResource("pods")
	pods, presence, err := Items[corev1.Pod](ctx, w, at, of.Namespace, metav1.FormatLabelSelector(&of.Spec.Selector))
	if err != nil {
		return err
	}
	if presence == Unread {
		w.lack("list pods in namespace %s", of.Namespace)
	}
	for _, pod := range pods {
		if at := policy.FactsOfPod(pod).FinishTime; !at.IsZero() && slices.Contains(uncounted, pod.UID) && (of.Oldest.IsZero() || at.Before(of.Oldest)) {
			of.Oldest = at
		}
	}
	return nil
}
