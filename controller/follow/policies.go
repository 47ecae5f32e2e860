package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/v1alpha1"
)

// compiledPolicy is one LifecyclePolicy and its errors.
type compiledPolicy struct {
	object *v1alpha1.LifecyclePolicy
	policy *expression.Policy
	errs   field.ErrorList
	// requires is the record for older versions of Curfew that has to be written; else nil.
	requires *metav1.Condition
}

// Policies follows the LifecyclePolicies.
type Policies struct {
	store    *platform.Store
	mirror   *Mirror[compiledPolicy]
	clock    clock.Clock
	log      logr.Logger
	status   *Statuses // nil where none is written
	failures failures
	// pauses are the wanted Paused conditions, by policy name. The conditions of all other policies stay
	// as they are.
	pauses sync.Map
}

// NewPolicies keeps the LifecyclePolicies of a store current.
func NewPolicies(source Source, store *platform.Store, clock clock.Clock, log logr.Logger) *Policies {
	p := &Policies{store: store, clock: clock, log: log.WithName("policies")}
	p.mirror = NewMirror(source, p.compile, clock, p.log.WithValues("resource", v1alpha1.LifecyclePolicies+"."+v1alpha1.GroupVersion.Group))
	p.mirror.OnChange(func(name string, old, new *compiledPolicy) {
		switch {
		case name == "":
		case new == nil:
			store.PutPolicy(name, nil)
		case old == nil || !samePolicy(old, new):
			store.PutPolicy(name, new.policy)
			logUnusable(p.log, name, new.errs)
		}
	})
	return p
}

// logUnusable logs an object that got in past admission.
func logUnusable(log logr.Logger, name string, errs field.ErrorList) {
	if err := errs.ToAggregate(); err != nil {
		log.Info("object cannot be used as it stands: the objects that it matches are kept", "name", name, "reason", err.Error())
	}
}

// OnChange registers a function that is called when a policy has changed: concerns reports whether
// its old or its new state applies to a kind. Call it before the follower starts.
func (p *Policies) OnChange(f func(concerns func(schema.GroupKind) bool)) {
	p.mirror.OnChange(func(_ string, old, new *compiledPolicy) {
		if old != nil && new != nil && samePolicy(old, new) {
			return
		}
		f(func(kind schema.GroupKind) bool {
			return old != nil && old.policy.Concerns(kind) || new != nil && new.policy.Concerns(kind)
		})
	})
}

// samePolicy reports whether two states judge alike: conditions in the status change nothing.
func samePolicy(old, new *compiledPolicy) bool {
	return old.object.UID == new.object.UID && old.object.Generation == new.object.Generation && len(old.errs) == len(new.errs) &&
		equality.Semantic.DeepEqual(old.object.Status.Defaults, new.object.Status.Defaults)
}

func (p *Policies) compile(object *unstructured.Unstructured) compiledPolicy {
	out := compiledPolicy{requires: requirement.Record("LifecyclePolicy", object.Object)}
	out.object, out.policy, out.errs = p.store.Compiler().ReadPolicy(object.Object)
	return out
}

// Wait waits until the policies are known: before that no bound would apply.
func (p *Policies) Wait(ctx context.Context) error { return p.mirror.Wait(ctx) }

// ReadNamespaces reports whether an expression of a policy looks at namespaces.
func (p *Policies) ReadNamespaces() bool {
	return slices.ContainsFunc(p.store.Snapshot().Policies, (*expression.Policy).ReadsNamespace)
}

// Objects are all LifecyclePolicies. Before they are known it is an error.
func (p *Policies) Objects() ([]*v1alpha1.LifecyclePolicy, error) {
	all, err := p.mirror.All()
	if err != nil {
		return nil, fmt.Errorf("LifecyclePolicies: %w", err)
	}
	out := make([]*v1alpha1.LifecyclePolicy, 0, len(all))
	for _, compiled := range all {
		out = append(out, compiled.object)
	}
	return out, nil
}

// Live lists the policies. It compiles only the ones that are not compiled yet.
func (p *Policies) Live(ctx context.Context) ([]*expression.Policy, *listing, error) {
	var out []*expression.Policy
	read, err := p.mirror.each(ctx, func(item *unstructured.Unstructured) { out = append(out, p.compile(item).policy) })
	switch {
	case p.mirror.Absent(ctx, err):
		return nil, unservedListing(read.sent), nil
	case err != nil:
		return nil, nil, fmt.Errorf("listing LifecyclePolicies: %w", err)
	}
	return out, read, nil
}

// Failed reports policies that could not be evaluated for an object: the log has all of them, and
// the condition Ready of a policy the first ones.
func (p *Policies) Failed(object string, errs []error) {
	for _, err := range errs {
		p.log.V(1).Info("kept: cannot determine the policies that apply to it", "object", object, "reason", err.Error())
		failed := (*expression.PolicyError)(nil)
		if p.status == nil || !errors.As(err, &failed) || !p.failures.add(object, failed) {
			continue
		}
		if known, ok := p.mirror.Get(failed.Policy); ok {
			p.writeStatus(failed.Policy, &known)
		}
	}
}

// WriteStatus has the status of policies written, once [Policies.WriteStatuses] runs: Ready, and
// since when the defaults apply. Call it before the follower starts.
func (p *Policies) WriteStatus(patcher Patcher, serverTime ServerTime, held HeldEvent) {
	p.status = NewStatuses(patcher, p.clock, serverTime, held, p.log)
	p.mirror.OnChange(func(name string, old, new *compiledPolicy) {
		if new == nil || old != nil && old.object.UID != new.object.UID {
			p.failures.forget(name)
			p.pauses.Delete(name)
		}
		p.writeStatus(name, new)
	})
}

// WriteStatuses writes statuses until ctx is done. It may run once in a cluster.
func (p *Policies) WriteStatuses(ctx context.Context) error {
	p.status.Run(ctx)
	return nil
}

// writeStatus has the status of one policy written; nil is one that is gone.
func (p *Policies) writeStatus(name string, policy *compiledPolicy) {
	if policy == nil {
		p.status.Add(name, nil)
		return
	}
	status := &policy.object.Status
	conditions := []metav1.Condition{expression.Ready(policy.object.Generation, policy.errs, p.failures.of(name, policy.object.Generation))}
	wanted, _ := p.pauses.Load(name)
	if paused, ok := wanted.(metav1.Condition); ok {
		paused.ObservedGeneration = policy.object.Generation
		conditions = append(conditions, paused)
	}
	if policy.requires != nil {
		conditions = append(conditions, *policy.requires)
	}
	p.status.Add(name, func(now time.Time) []byte {
		return p.status.Patch(now, &policy.object.ObjectMeta, status.ObservedGeneration, status.Conditions, conditions,
			status.Defaults, expression.StampPolicy(policy.object, now))
	})
}

// failures records the errors of a policy's expressions on objects, for the condition Ready: the
// first few of each generation, since one expression can fail on any number of objects.
type failures struct {
	mu       sync.Mutex
	byPolicy map[string]failure
}

type failure struct {
	generation int64
	// reasons are reported once, whatever the object; errs are the same with the first object.
	reasons []string
	errs    []error
}

// maxFailures is how many failures of a policy are reported. One is enough to see that something is
// wrong, and several expressions may be.
const maxFailures = 3

// add reports whether there is something new to tell.
func (f *failures) add(object string, failed *expression.PolicyError) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.byPolicy[failed.Policy]
	if last.generation > failed.Generation {
		return false
	}
	if last.generation < failed.Generation {
		last = failure{generation: failed.Generation}
	}
	reason := failed.Err.Error()
	if len(last.errs) == maxFailures || slices.Contains(last.reasons, reason) {
		return false
	}
	last.reasons = append(last.reasons, reason)
	last.errs = append(last.errs, fmt.Errorf("%w (%s, which is kept)", failed.Err, object))
	if f.byPolicy == nil {
		f.byPolicy = map[string]failure{}
	}
	f.byPolicy[failed.Policy] = last
	return true
}

// of are the failures of a generation of a policy.
func (f *failures) of(policy string, generation int64) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if failure := f.byPolicy[policy]; failure.generation == generation {
		return slices.Clone(failure.errs)
	}
	return nil
}

func (f *failures) forget(policy string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byPolicy, policy)
}

// Write has the condition Paused of one policy written with the rest of its status. It implements
// events.Conditions, as do Left and All.
func (p *Policies) Write(_ context.Context, name string, condition metav1.Condition) error {
	known, ok := p.mirror.Get(name)
	if !ok || p.status == nil {
		return nil
	}
	condition.Type = v1alpha1.ConditionPaused
	p.pauses.Store(name, condition)
	p.writeStatus(name, &known)
	return nil
}

// Left returns the policies whose condition Paused is True, no matter who wrote it.
func (p *Policies) Left(context.Context) ([]string, error) {
	all, err := p.mirror.All()
	if err != nil {
		return nil, err
	}
	var out []string
	for name, compiled := range all {
		if meta.IsStatusConditionTrue(compiled.object.Status.Conditions, v1alpha1.ConditionPaused) {
			out = append(out, name)
		}
	}
	return out, nil
}

// All are the names of all policies that are known.
func (p *Policies) All() []string {
	all, err := p.mirror.All()
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(all))
}

// UID returns the UID of a policy, "" where it is not known.
func (p *Policies) UID(name string) types.UID {
	known, ok := p.mirror.Get(name)
	if !ok {
		return ""
	}
	return known.object.UID
}
