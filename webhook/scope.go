package webhook

import (
	"context"
	"fmt"
	"strings"

	"curfew.dev/curfew/policy"
)

// NamespaceGetter reads what a namespace says.
type NamespaceGetter interface {
	// Namespace may answer from a cache; it looks further where that does not know the namespace.
	Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
	// LiveNamespace asks the API server.
	LiveNamespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
}

// Scopes gathers what surrounds an object. Platform policies and training runtimes are to join here.
type Scopes interface {
	// ScopeOf returns the scope of an object. Where inUse is set, the request could reach Curfew only because the API
	// server knows the namespace to use it.
	ScopeOf(ctx context.Context, facts *policy.Facts, inUse bool) (*policy.Scope, error)
}

// namespaceScopes know namespaces only.
type namespaceScopes struct {
	namespaces      NamespaceGetter
	annotationsOnly bool
}

// ScopeOf implements [Scopes]. A cache may be milliseconds behind the API server, whose own namespaceSelector told that the
// namespace is in use: where the cache contradicts that, the namespace is read live, once.
func (s *namespaceScopes) ScopeOf(ctx context.Context, facts *policy.Facts, inUse bool) (*policy.Scope, error) {
	scope := &policy.Scope{AnnotationsOnly: s.annotationsOnly}
	if facts.Namespace == "" {
		return scope, nil
	}
	namespace, err := s.namespaces.Namespace(ctx, facts.Namespace)
	if err == nil && inUse && !uses(namespace, facts) {
		namespace, err = s.namespaces.LiveNamespace(ctx, facts.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", facts.Namespace, err)
	}
	scope.Namespace = namespace
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
	for _, keys := range []map[string]string{facts.Annotations, facts.Labels} {
		for key := range keys {
			if strings.HasPrefix(key, policy.Prefix) {
				return false
			}
		}
	}
	return true
}
