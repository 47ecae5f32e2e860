package feed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// Namespace is what a judge has to know of one.
type Namespace struct {
	// Policy is what it says; nil for the many that say nothing.
	Policy *policy.NamespacePolicy
	// Object is its metadata in JSON form, for the expressions of policies. Nil for what has no namespace.
	Object map[string]any
}

// NamespaceReader tells what a namespace says; [Namespaces] is the one that a controller uses.
type NamespaceReader interface {
	// Get may answer from a cache.
	Get(ctx context.Context, name string) (Namespace, error)
	// Read asks the API server. A namespace that cannot be read is an error.
	Read(ctx context.Context, name string) (Namespace, error)
}

// PolicyReader knows the LifecyclePolicies.
type PolicyReader interface {
	// Get are those that may speak of a kind, in the order in which they are asked. It may answer from a cache. Until all are
	// known it is an error: a bound that is not known cannot keep what lies outside of it (S6).
	Get(ctx context.Context, kind schema.GroupKind) ([]*expression.Policy, error)
	// Read asks the API server: a default that was taken back a moment ago deletes nothing.
	Read(ctx context.Context, kind schema.GroupKind) ([]*expression.Policy, error)
	// Failed tells which of them failed on an object (such as Job ci/build), which was kept for that.
	Failed(object string, errs []error)
}

// RuntimeReader reads what objects refer to. A runtime that does not exist is nil and no error.
type RuntimeReader interface {
	// Get may answer from a cache. It looks further where that does not know the runtime.
	Get(ctx context.Context, reference *expression.Reference) (map[string]any, error)
	// Read asks the API server.
	Read(ctx context.Context, reference *expression.Reference) (map[string]any, error)
}

// surroundings are what an object is judged in. undecided says that a policy could not be asked, for which the object has to be
// read whole; until then nothing is deleted.
type surroundings struct {
	policy.Scope
	undecided bool
}

// scope gathers what surrounds an object: from caches to find out when it may be due, live right before it goes.
func (f *Feed) scope(ctx context.Context, facts *policy.Facts, object runtime.Object, live bool) (*surroundings, error) {
	namespaces, policies, runtimes := f.namespaces.Get, policiesOf(f.options.Policies, false), runtimesOf(f.options.Runtimes, false)
	if live {
		namespaces, policies, runtimes = f.readNamespace, f.readPolicies, f.readRuntime
	}
	namespace, err := namespaces(ctx, facts.Namespace)
	if err != nil {
		return nil, err
	}
	scope := &surroundings{Scope: policy.Scope{Namespace: namespace.Policy, AnnotationsOnly: f.options.AnnotationsOnly}}
	concerning, err := policies(ctx, facts.Profile.Kind.GroupKind())
	if err != nil {
		return nil, fmt.Errorf("reading LifecyclePolicies: %w", err)
	}
	if f.kind.Label != "" {
		return scope, f.labelScope(ctx, scope, facts, object, namespace, concerning, live)
	}
	if len(concerning) == 0 && f.kind.Runtime == nil {
		return scope, nil
	}
	content, err := f.kind.JSON(object)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", f.kind.Profile.Name, name(facts.Namespace, facts.Name), err)
	}
	variables := &expression.Variables{Object: content, Namespace: namespace.Object, NamespacePolicy: namespace.Policy}
	if f.kind.Runtime != nil {
		needed := live && (!deadlineStands(facts) || slices.ContainsFunc(concerning, (*expression.Policy).MatchAsksRuntime))
		if scope.Runtime, variables.Runtime, err = f.runtime(ctx, f.kind.Runtime, facts, content, runtimes, needed); err != nil {
			return nil, err
		}
	}
	var errs []error
	if scope.Policies, errs = expression.Matching(ctx, concerning, facts, variables); len(errs) > 0 {
		if ctx.Err() != nil {
			return nil, ctx.Err() // Stopped in the middle is no fault of the policy's.
		}
		f.options.Policies.Failed(facts.Profile.Kind.Kind+" "+name(facts.Namespace, facts.Name), errs)
	}
	return scope, nil
}

// deadlineStands reports whether the object runs with a deadline of its own, or has failed for one. Neither depends on its runtime, so that a
// runtime that cannot be read does not disable it. No TTL deletes what runs, and what failed is kept from its TTL meanwhile.
func deadlineStands(facts *policy.Facts) bool {
	return !facts.Finished && facts.Deadline() != nil || !facts.Exceeded.IsZero()
}

// runtime is what the object's runtime says. A reference that cannot be read is as good as a runtime that is gone: keep (S6). So is a
// runtime that cannot be read while the object is merely looked at: an error would end the whole list, or the watch, for the sake of one
// object, and nothing of the kind would ever be known whole (S3). It is judged again after unreadFor.
func (f *Feed) runtime(ctx context.Context, of *expression.Runtime, facts *policy.Facts, content map[string]any,
	read func(context.Context, *expression.Reference) (map[string]any, error), live bool,
) (*policy.RuntimePolicy, map[string]any, error) {
	reference, err := of.Reference(facts.Namespace, content)
	if err != nil {
		f.log.V(1).Info("kept: its runtime cannot be told", "object", name(facts.Namespace, facts.Name), "reason", err.Error())
		return of.Unreadable(err), nil, nil
	}
	if reference == nil {
		return nil, nil, nil
	}
	object, err := read(ctx, reference)
	switch {
	case err == nil:
		return reference.Policy(object), object, nil
	case live || ctx.Err() != nil:
		return nil, nil, fmt.Errorf("reading %s: %w", reference, err)
	default:
		f.log.V(1).Info("kept: its runtime cannot be read", "object", name(facts.Namespace, facts.Name), "runtime", reference.String(), "reason", err.Error())
		f.unread.Store(true)
		said := of.Unreadable(fmt.Errorf("%s cannot be read", reference))
		said.Name = reference.Name
		return said, nil, nil
	}
}

// unreadFor is how long it takes until objects whose runtime could not be read are judged again.
const unreadFor = time.Minute

// lookAgain judges the kind again, for as long as runtimes cannot be read.
func (f *Feed) lookAgain(ctx context.Context) {
	for ctx.Err() == nil {
		loop.Pause(ctx, f.options.Clock, unreadFor)
		if f.unread.Swap(false) {
			f.RejudgeAll()
		}
	}
}

func policiesOf(reader PolicyReader, live bool) func(context.Context, schema.GroupKind) ([]*expression.Policy, error) {
	switch {
	case reader == nil:
		return func(context.Context, schema.GroupKind) ([]*expression.Policy, error) { return nil, nil }
	case live:
		return reader.Read
	default:
		return reader.Get
	}
}

func runtimesOf(reader RuntimeReader, live bool) func(context.Context, *expression.Reference) (map[string]any, error) {
	switch {
	case reader == nil:
		return func(context.Context, *expression.Reference) (map[string]any, error) {
			return nil, fmt.Errorf("runtimes cannot be read: this is a bug")
		}
	case live:
		return reader.Read
	default:
		return reader.Get
	}
}

// What surrounds an object is read live once for all who ask at the same time: see shared.

func (f *Feed) readNamespace(ctx context.Context, name string) (Namespace, error) {
	return f.liveNamespaces.get(ctx, name, func(ctx context.Context) (Namespace, error) { return f.namespaces.Read(ctx, name) })
}

func (f *Feed) readPolicies(ctx context.Context, kind schema.GroupKind) ([]*expression.Policy, error) {
	read := policiesOf(f.options.Policies, true)
	return f.livePolicies.get(ctx, kind.String(), func(ctx context.Context) ([]*expression.Policy, error) { return read(ctx, kind) })
}

func (f *Feed) readRuntime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	read := runtimesOf(f.options.Runtimes, true)
	key := fmt.Sprintf("%s %s/%s", reference.Kind, reference.Namespace, reference.Name)
	return f.liveRuntimes.get(ctx, key, func(ctx context.Context) (map[string]any, error) { return read(ctx, reference) })
}

// jsonOf turns typed objects into their JSON form, with the kind that lists and watches leave out.
func jsonOf(profile *policy.Profile) func(runtime.Object) (map[string]any, error) {
	return func(object runtime.Object) (map[string]any, error) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		content["apiVersion"], content["kind"] = profile.Kind.GroupVersion().String(), profile.Kind.Kind
		return content, nil
	}
}
