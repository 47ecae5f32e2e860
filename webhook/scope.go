package webhook

import (
	"context"
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
)

// NamespaceGetter reads what a namespace says.
type NamespaceGetter interface {
	// Namespace may answer from a cache; it looks further where that does not know the namespace.
	Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
	// LiveNamespace asks the API server.
	LiveNamespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
}

// NamespaceLister may be implemented by a [NamespaceGetter] as well.
type NamespaceLister interface {
	// Bounded are the namespaces with bounds. It may answer from a cache.
	Bounded(ctx context.Context) ([]*policy.NamespacePolicy, error)
}

// scopes gather what surrounds an object: its namespace and, where there is a catalog, the policies that match it and the runtime
// that it uses.
type scopes struct {
	namespaces      NamespaceGetter
	runtimes        RuntimeGetter
	platform        *platform.Store
	annotationsOnly bool
	// failed takes the errors of evaluating policies, which refuse nobody.
	failed func(err error)
}

// ScopeOf returns the scope of an object, given as facts and as decoded JSON. Where inUse is set, the request could reach Curfew
// only because the API server knows the namespace to use it, or because a policy speaks of the kind. A cache may be milliseconds
// behind that: where it contradicts it, the namespace is read live, once.
func (s *scopes) ScopeOf(ctx context.Context, facts *policy.Facts, object map[string]any, inUse bool) (*policy.Scope, error) {
	var snapshot *platform.Snapshot
	if s.platform != nil {
		snapshot = s.platform.Snapshot()
	}
	var namespace *policy.NamespacePolicy
	if facts.Namespace != "" {
		var err error
		namespace, err = s.namespaces.Namespace(ctx, facts.Namespace)
		if err == nil && inUse && !uses(namespace, facts) && (snapshot == nil || !snapshot.Concerns(facts.Profile.Kind.GroupKind())) {
			namespace, err = s.namespaces.LiveNamespace(ctx, facts.Namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("reading namespace %q: %w", facts.Namespace, err)
		}
	}
	scope := &policy.Scope{Namespace: namespace}
	if snapshot != nil {
		var read platform.RuntimeReader
		if s.runtimes != nil {
			read = s.runtimes.Runtime
		}
		var err error
		if scope, err = snapshot.Scope(ctx, facts, object, namespace, read, s.failed); err != nil {
			return nil, err
		}
	}
	scope.AnnotationsOnly = s.annotationsOnly
	return scope, nil
}

func uses(namespace *policy.NamespacePolicy, facts *policy.Facts) bool {
	if facts.IsPod() {
		return namespace.PodsInUse()
	}
	return namespace.InUse()
}

// bare reports whether an object says nothing to Curfew by itself, so that the webhook configurations send its CREATE only
// where the namespace is in use (manifests/webhook). Templates are not looked into: for their kinds nothing is concluded.
func bare(facts *policy.Facts) bool {
	if len(facts.Profile.Templates) > 0 || facts.Profile.State == nil || facts.NativeTTL.Set {
		return false
	}
	return !slices.ContainsFunc(policy.ObjectKeys, func(key string) bool {
		_, annotation := facts.Annotations[key]
		_, label := facts.Labels[key]
		return annotation || label
	})
}
