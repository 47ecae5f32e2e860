package follow

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Counter is the PodTally that counted a Pod; nil if it is gone. It is an error until all are
// known.
func (t *Tallies) Counter(pod *policy.Facts) (*policy.PodCounter, error) {
	all, err := t.In(pod.Namespace)
	if err != nil {
		return nil, err
	}
	for _, each := range all {
		if each.UID == pod.CountedBy() {
			return each.Counter(), nil
		}
	}
	return nil, nil
}

// LiveCounter is the same, read from the API server: also a PodTally that the mirror has not seen.
func (t *Tallies) LiveCounter(ctx context.Context, client dynamic.Interface, pod *policy.Facts) (*policy.PodCounter, error) {
	known, err := t.Counter(pod)
	if err != nil {
		return nil, err
	}
	tallies := v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)
	if known == nil {
		return t.findCounter(ctx, client, pod)
	}
	read, err := client.Resource(tallies).Namespace(pod.Namespace).Get(ctx, known.Source.Name, metav1.GetOptions{})
	switch {
	case IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading PodTally %s: %w", known.Source.Name, err)
	case read.GetUID() != pod.CountedBy():
		return nil, nil
	}
	return tally.CounterOf(read.Object)
}

// findCounter looks for the PodTally that counted a Pod among all of its namespace. The author of a
// Pod writes its counted-by, and may write a UID into each Pod that no PodTally has. So one list
// answers all who ask about a namespace at the same time (S9).
func (t *Tallies) findCounter(ctx context.Context, client dynamic.Interface, pod *policy.Facts) (*policy.PodCounter, error) {
	if pod.CountedBy() == "" {
		return nil, nil
	}
	all, err := t.listed.get(ctx, pod.Namespace, func(ctx context.Context) (counters, error) {
		return listCounters(ctx, client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(pod.Namespace))
	})
	if err != nil {
		return nil, err
	}
	one := all[pod.CountedBy()]
	return one.counter, one.err
}

// counters holds PodTallies by UID, each with its error.
type counters map[types.UID]struct {
	counter *policy.PodCounter
	err     error
}

func listCounters(ctx context.Context, client dynamic.ResourceInterface) (counters, error) {
	all := counters{}
	_, err := paging.Each(ctx, metav1.ListOptions{}, client.List, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			one := all[page.Items[i].GetUID()]
			one.counter, one.err = tally.CounterOf(page.Items[i].Object)
			all[page.Items[i].GetUID()] = one
		}
		return nil
	})
	switch {
	case IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing PodTallies: %w", err)
	}
	return all, nil
}
