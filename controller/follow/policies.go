package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// compiledPolicy is one LifecyclePolicy as it was compiled.
type compiledPolicy struct {
	object *v1alpha1.LifecyclePolicy
	policy *expression.Policy
	errs   field.ErrorList
}

// Policies knows the LifecyclePolicies. It implements feed.PolicyReader.
type Policies struct {
	source   Source
	compiler *expression.Compiler
	mirror   *Mirror[compiledPolicy]
	log      logr.Logger
	status   *Statuses // nil where none is written
	failures failures
	pauses   pauses
}

// NewPolicies follows a source of LifecyclePolicies.
func NewPolicies(source Source, compiler *expression.Compiler, clock clock.Clock, log logr.Logger) *Policies {
	p := &Policies{source: source, compiler: compiler, log: log.WithName("policies")}
	p.mirror = NewMirror(source, p.compile, clock, p.log)
	return p
}

// OnChange is told of every kind-deciding change: concerns reports whether the old or the new state speaks of a kind.
func (p *Policies) OnChange(f func(concerns func(schema.GroupKind) bool)) {
	p.mirror.OnChange(func(_ string, old, new *compiledPolicy) {
		if old != nil && new != nil && same(old, new) {
			return
		}
		f(func(kind schema.GroupKind) bool {
			return old != nil && old.policy.Concerns(kind) || new != nil && new.policy.Concerns(kind)
		})
	})
}

// same reports whether two states judge alike: conditions in the status change nothing.
func same(old, new *compiledPolicy) bool {
	return old.object.UID == new.object.UID && old.object.Generation == new.object.Generation &&
		old.object.Status.DefaultSince == new.object.Status.DefaultSince
}

func (p *Policies) compile(object *unstructured.Unstructured) compiledPolicy {
	out := compiledPolicy{object: &v1alpha1.LifecyclePolicy{}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out.object); err != nil {
		// The schema of the CustomResourceDefinition does not let this through.
		p.log.Error(err, "a LifecyclePolicy is not of the form that this version knows", "policy", object.GetName())
	}
	out.policy, out.errs = p.compiler.Policy(out.object)
	return out
}

// Run follows the policies until ctx is done.
func (p *Policies) Run(ctx context.Context) error {
	p.mirror.Run(ctx)
	return nil
}

// WriteStatuses writes the status of policies until ctx is done. It may run once in a cluster.
func (p *Policies) WriteStatuses(ctx context.Context) error {
	if p.status != nil {
		p.status.Run(ctx)
	}
	return nil
}

// Wait waits until the policies are known: without them no bound would hold.
func (p *Policies) Wait(ctx context.Context) error { return p.mirror.Wait(ctx) }

// Wake looks again whether LifecyclePolicies are served.
func (p *Policies) Wake() { p.mirror.Wake() }

// Get implements feed.PolicyReader from the cache.
func (p *Policies) Get(_ context.Context, kind schema.GroupKind) ([]*expression.Policy, error) {
	all, err := p.mirror.All()
	if err != nil {
		return nil, err
	}
	var out []*expression.Policy
	for _, compiled := range all {
		if compiled.policy.Concerns(kind) {
			out = append(out, compiled.policy)
		}
	}
	expression.Sort(out)
	return out, nil
}

// ReadNamespaces reports whether an expression of one of them looks at namespaces.
func (p *Policies) ReadNamespaces() bool {
	all, err := p.mirror.All()
	if err != nil {
		return false // All is judged once they are known.
	}
	for _, compiled := range all {
		if compiled.policy.ReadsNamespace() {
			return true
		}
	}
	return false
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

// Read implements feed.PolicyReader from the API server. What is compiled already is not compiled again.
func (p *Policies) Read(ctx context.Context, kind schema.GroupKind) ([]*expression.Policy, error) {
	var out []*expression.Policy
	options := metav1.ListOptions{Limit: 100}
	for {
		page, err := p.source.List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing LifecyclePolicies: %w", err)
		}
		for i := range page.Items {
			if compiled := p.compile(&page.Items[i]); compiled.policy.Concerns(kind) {
				out = append(out, compiled.policy)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			expression.Sort(out)
			return out, nil
		}
	}
}

// Failed implements feed.PolicyReader: the log has every failure, and the condition Ready of the policy the first ones.
func (p *Policies) Failed(object string, errs []error) {
	for _, err := range errs {
		p.log.V(1).Info("an object was kept: a policy cannot be told for it", "object", object, "reason", err.Error())
		failed := (*expression.PolicyError)(nil)
		if p.status == nil || !errors.As(err, &failed) || !p.failures.add(object, failed) {
			continue
		}
		if known, ok := p.mirror.Get(failed.Policy); ok {
			p.writeStatus(failed.Policy, &known)
		}
	}
}

// WriteStatus has the status of policies written: Ready, and since when the defaults hold. Call it before Run.
func (p *Policies) WriteStatus(patcher Patcher, clock clock.Clock, serverTime ServerTime) {
	p.status = NewStatuses(patcher, clock, serverTime, p.log)
	p.mirror.OnChange(func(name string, old, new *compiledPolicy) {
		if new == nil || old != nil && old.object.UID != new.object.UID {
			p.failures.forget(name)
			p.pauses.forget(name)
		}
		p.writeStatus(name, new)
	})
}

// writeStatus has the status of one policy written; nil is one that is gone.
func (p *Policies) writeStatus(name string, of *compiledPolicy) {
	if of == nil {
		p.status.Add(name, nil)
		return
	}
	status := &of.object.Status
	conditions := []metav1.Condition{expression.Ready(of.object.Generation, of.errs, p.failures.of(name, of.object.Generation))}
	if paused, ok := p.pauses.of(name); ok {
		paused.ObservedGeneration = of.object.Generation
		conditions = append(conditions, paused)
	}
	p.status.Add(name, func(now time.Time) []byte {
		return p.status.Patch(now, &of.object.ObjectMeta, status.ObservedGeneration, status.Conditions, conditions,
			status.DefaultSince, expression.StampPolicy(of.object, now))
	})
}
