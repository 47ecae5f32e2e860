package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// compiledTally is one PodTally and what cannot be used of it.
type compiledTally struct {
	tally      *tally.Tally
	generation int64
	errs       field.ErrorList
}

// Tallies follows the PodTallies.
type Tallies struct {
	mirror  *Mirror[compiledTally]
	log     logr.Logger
	changed []func(namespace string)
	// listed are the live PodTallies of a namespace, for judgements.
	listed *shared[counters]

	mu sync.RWMutex
	of map[string][]*tally.Tally // by namespace; a changed slice is another slice
}

func newTallies(source Source, clock clock.Clock, log logr.Logger) *Tallies {
	t := &Tallies{of: map[string][]*tally.Tally{}, listed: newShared[counters](), log: log.WithName("tallies")}
	t.mirror = NewMirror(source, t.compile, clock, t.log.WithValues("resource", v1alpha1.PodTallies+"."+v1alpha1.GroupVersion.Group))
	t.mirror.OnChange(t.observe)
	return t
}

func (t *Tallies) compile(object *unstructured.Unstructured) compiledTally {
	out := compiledTally{generation: object.GetGeneration()}
	out.tally, out.errs = tally.Read(object.Object)
	return out
}

// OnChange registers a function that is called with the namespace of a PodTally that was created,
// changed or deleted. Changes of its status do not count. Call it before the follower starts.
func (t *Tallies) OnChange(f func(namespace string)) { t.changed = append(t.changed, f) }

func (t *Tallies) observe(key string, old, new *compiledTally) {
	if key == "" || old != nil && new != nil && sameTally(old, new) {
		return
	}
	var namespace string
	for _, each := range []*compiledTally{old, new} {
		if each != nil {
			namespace = each.tally.Namespace
		}
	}
	t.mu.Lock()
	all := slices.Clone(t.of[namespace])
	if old != nil {
		all = slices.DeleteFunc(all, func(each *tally.Tally) bool { return each.Name == old.tally.Name })
	}
	if new != nil {
		all = append(all, new.tally)
	}
	if t.of[namespace] = all; len(all) == 0 {
		delete(t.of, namespace)
	}
	t.mu.Unlock()
	if new != nil {
		logUnusable(t.log, key, new.errs)
	}
	for _, f := range t.changed {
		f(namespace)
	}
}

// sameTally reports whether two states count the same Pods: the status changes nothing.
func sameTally(old, new *compiledTally) bool {
	return old.tally.UID == new.tally.UID && old.generation == new.generation && old.tally.Deleting == new.tally.Deleting
}

// In are the PodTallies of a namespace, in no order. Do not change the slice. It is an error until
// all are known.
func (t *Tallies) In(namespace string) ([]*tally.Tally, error) {
	if err := t.mirror.Known(); err != nil {
		return nil, fmt.Errorf("PodTallies: %w", err)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.of[namespace], nil
}

// Namespaces are the namespaces with a PodTally.
func (t *Tallies) Namespaces() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.of))
}

// Counts reports whether a PodTally of the namespace may count Pods, so that admission must see
// them. It is an error until all are known.
func (t *Tallies) Counts(namespace string) (bool, error) {
	all, err := t.In(namespace)
	return slices.ContainsFunc(all, func(each *tally.Tally) bool { return !each.Deleting }), err
}

// Counter is the PodTally that counted a Pod; nil if it is gone. It is an error until all are
// known.
func (t *Tallies) Counter(pod *policy.Facts) (*resolution.PodCounter, error) {
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
func (t *Tallies) LiveCounter(ctx context.Context, client dynamic.Interface, pod *policy.Facts) (*resolution.PodCounter, error) {
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
	return tally.CounterOf(read.Object), nil
}

// findCounter looks for the PodTally that counted a Pod among all of its namespace. The author of a
// Pod writes its counted-by, and may write a UID into each Pod that no PodTally has. So one list
// answers all who ask about a namespace at the same time (S9).
func (t *Tallies) findCounter(ctx context.Context, client dynamic.Interface, pod *policy.Facts) (*resolution.PodCounter, error) {
	if pod.CountedBy() == "" {
		return nil, nil
	}
	all, err := t.listed.get(ctx, pod.Namespace, func(ctx context.Context) (counters, error) {
		return listCounters(ctx, client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(pod.Namespace))
	})
	if err != nil {
		return nil, err
	}
	return all[pod.CountedBy()], nil
}

// counters holds PodTallies by UID.
type counters map[types.UID]*resolution.PodCounter

func listCounters(ctx context.Context, client dynamic.ResourceInterface) (counters, error) {
	all := counters{}
	_, err := watch.Each(ctx, metav1.ListOptions{}, client.List, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			all[page.Items[i].GetUID()] = tally.CounterOf(page.Items[i].Object)
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
