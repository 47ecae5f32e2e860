package webhook

import (
	"context"
	"fmt"
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// NamespaceGetter reads what a namespace says.
type NamespaceGetter interface {
	// Namespace may answer from a cache; it looks further where that does not know the namespace.
	Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
	// LiveNamespace asks the API server.
	LiveNamespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
}

// Scopes gathers what surrounds an object: its namespace, the policies that match it and the runtime that it uses.
type Scopes interface {
	// ScopeOf returns the scope of an object, given as facts and as decoded JSON. Where inUse is set, the request could
	// reach Curfew only because the API server knows the namespace to use it, or because a policy speaks of the kind.
	ScopeOf(ctx context.Context, facts *policy.Facts, object map[string]any, inUse bool) (*policy.Scope, error)
}

// scopes know namespaces and, where there is a catalog, what the platform says.
type scopes struct {
	namespaces      NamespaceGetter
	runtimes        RuntimeGetter
	catalog         *Catalog
	annotationsOnly bool
	// failed takes the errors of evaluating policies, which refuse nobody.
	failed func(err error)
}

// ScopeOf implements [Scopes]. A cache may be milliseconds behind the API server, whose own namespaceSelector told that the
// namespace is in use: where the cache contradicts that, the namespace is read live, once.
func (s *scopes) ScopeOf(ctx context.Context, facts *policy.Facts, object map[string]any, inUse bool) (*policy.Scope, error) {
	scope := &policy.Scope{AnnotationsOnly: s.annotationsOnly}
	var policies []*expression.Policy
	if s.catalog != nil {
		policies = s.catalog.Snapshot().concerning(facts.Profile.Kind.GroupKind())
	}
	if facts.Namespace != "" {
		namespace, err := s.namespaces.Namespace(ctx, facts.Namespace)
		if err == nil && inUse && len(policies) == 0 && !uses(namespace, facts) {
			namespace, err = s.namespaces.LiveNamespace(ctx, facts.Namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("reading namespace %q: %w", facts.Namespace, err)
		}
		scope.Namespace = namespace
	}
	if s.catalog == nil {
		return scope, nil
	}
	runtime, err := s.runtimeOf(ctx, scope, facts, object)
	if err != nil {
		return nil, err
	}
	if len(policies) > 0 {
		variables := &expression.Variables{Object: object, Namespace: namespaceObject(scope.Namespace), Runtime: runtime}
		var errs []error
		scope.Policies, errs = expression.Matching(ctx, policies, facts, variables)
		for _, err := range errs {
			s.failed(err)
		}
	}
	return scope, nil
}

// runtimeOf reads the runtime that an object uses and notes in the scope what it says; nil where it uses none.
func (s *scopes) runtimeOf(ctx context.Context, scope *policy.Scope, facts *policy.Facts, object map[string]any) (map[string]any, error) {
	kind := s.catalog.Snapshot().Runtime(facts.Profile.Kind.GroupKind())
	if kind == nil {
		return nil, nil
	}
	reference, err := kind.Reference(facts.Namespace, object)
	if err != nil {
		// It uses a runtime and cannot be told which: kept, as if that were gone (S6).
		scope.Runtime = &policy.RuntimePolicy{Missing: true}
		return nil, nil
	}
	if reference == nil || s.runtimes == nil {
		return nil, nil
	}
	runtime, err := s.runtimes.Runtime(ctx, reference)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", reference, err)
	}
	said, _ := reference.Policy(runtime)
	scope.Runtime = said
	return runtime, nil
}

// namespaceObject is the metadata of a namespace as policies see it.
func namespaceObject(namespace *policy.NamespacePolicy) map[string]any {
	if namespace == nil {
		return nil
	}
	metadata := map[string]any{"name": namespace.Name}
	for name, pairs := range map[string]map[string]string{"labels": namespace.Labels, "annotations": namespace.Annotations} {
		if len(pairs) > 0 {
			metadata[name] = anyMap(pairs)
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
}

func anyMap(pairs map[string]string) map[string]any {
	out := make(map[string]any, len(pairs))
	for key, value := range pairs {
		out[key] = value
	}
	return out
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
	for _, keys := range []map[string]string{facts.Annotations, facts.Labels} {
		for key := range keys {
			if strings.HasPrefix(key, policy.Prefix) {
				return false
			}
		}
	}
	return true
}
