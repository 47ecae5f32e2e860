package follow

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

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
		return findCounter(ctx, client.Resource(tallies).Namespace(pod.Namespace), pod)
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

// findCounter looks for the PodTally that counted a Pod among all of its namespace.
func findCounter(ctx context.Context, client dynamic.ResourceInterface, pod *policy.Facts) (*policy.PodCounter, error) {
	if pod.CountedBy() == "" {
		return nil, nil
	}
	options := metav1.ListOptions{Limit: 500}
	for {
		page, err := client.List(ctx, options)
		switch {
		case IsGone(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing PodTallies: %w", err)
		}
		for i := range page.Items {
			if page.Items[i].GetUID() == pod.CountedBy() {
				return tally.CounterOf(page.Items[i].Object)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil, nil
		}
	}
}
