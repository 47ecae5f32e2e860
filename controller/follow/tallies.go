package follow

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

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
	typed := &v1alpha1.PodTally{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		// The schema of the CustomResourceDefinition does not let this through.
		t.log.Error(err, "a PodTally is not of the form that this version knows", "namespace", object.GetNamespace(), "name", object.GetName())
	}
	out := compiledTally{generation: typed.Generation}
	out.tally, out.errs = tally.Compile(typed)
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
