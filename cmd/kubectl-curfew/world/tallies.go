package world

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Tally is a PodTally with what its Pods say.
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
