package platform

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// RuntimeReader reads the runtime that an object uses. Nil means that there is none of that name, its kind included.
type RuntimeReader func(ctx context.Context, reference *expression.Reference) (map[string]any, error)

// ErrRuntimeNotKnown is what a [RuntimeReader] answers that cannot find out whether there is such a runtime. It then says nothing.
var ErrRuntimeNotKnown = errors.New("the runtime is not known")

// Concerns reports whether some policy can speak of a kind.
func (s *Snapshot) Concerns(kind schema.GroupKind) bool { return len(s.concerning(kind)) > 0 }

// concerning are the policies that can speak of a kind, in their order. They are looked for once a kind.
func (s *Snapshot) concerning(kind schema.GroupKind) []*expression.Policy {
	if len(s.Policies) == 0 {
		return nil
	}
	if known, ok := s.byKind.Load(kind); ok {
		return known.([]*expression.Policy)
	}
	var out []*expression.Policy
	for _, candidate := range s.Policies {
		if candidate.Concerns(kind) {
			out = append(out, candidate)
		}
	}
	// Kinds without a profile, which somebody may make up, are not remembered: there is no end to them.
	if _, ok := s.Profiles[kind]; ok {
		s.byKind.Store(kind, out)
	}
	return out
}

// Bounding are the policies whose bounds hold in a namespace, in their order.
func (s *Snapshot) Bounding(namespace *policy.NamespacePolicy) []*policy.PlatformPolicy {
	var out []*policy.PlatformPolicy
	for _, candidate := range s.Policies {
		if said := candidate.Bounding(namespace); said != nil {
			out = append(out, said)
		}
	}
	return out
}

// Scope is what surrounds an object, given as facts and as decoded JSON, in its namespace; that is nil for cluster-scoped ones.
// A nil reader means that objects of this kind use no runtime. failed takes the errors of evaluating policies: each stands in the
// scope as well, keeps the object (S6) and refuses nobody. The error is that of the reader.
func (s *Snapshot) Scope(ctx context.Context, facts *policy.Facts, object map[string]any, namespace *policy.NamespacePolicy,
	read RuntimeReader, failed func(error)) (*policy.Scope, error) {
	scope := &policy.Scope{Namespace: namespace}
	kind := facts.Profile.Kind.GroupKind()
	runtime, err := s.runtimeOf(ctx, scope, facts, object, read)
	if err != nil {
		return nil, err
	}
	if policies := s.concerning(kind); len(policies) > 0 {
		variables := &expression.Variables{Object: object, NamespacePolicy: namespace, Runtime: runtime}
		var errs []error
		scope.Policies, errs = expression.Matching(ctx, policies, facts, variables)
		for _, err := range errs {
			failed(err)
		}
	}
	return scope, nil
}

// Reference says which runtime an object uses; nil where it uses none, or where it cannot be told which.
func (s *Snapshot) Reference(facts *policy.Facts, object map[string]any) *expression.Reference {
	kind := s.runtimes[facts.Profile.Kind.GroupKind()]
	if kind == nil {
		return nil
	}
	reference, err := kind.Reference(facts.Namespace, object)
	if err != nil {
		return nil
	}
	return reference
}

// runtimeOf reads the runtime that an object uses and notes in the scope what it says; nil where it uses none.
func (s *Snapshot) runtimeOf(ctx context.Context, scope *policy.Scope, facts *policy.Facts, object map[string]any, read RuntimeReader) (map[string]any, error) {
	kind := s.runtimes[facts.Profile.Kind.GroupKind()]
	if kind == nil {
		return nil, nil
	}
	reference, err := kind.Reference(facts.Namespace, object)
	if err != nil {
		// It uses a runtime and cannot be told which: kept, as if that were gone (S6).
		scope.Runtime = kind.Unreadable(err)
		return nil, nil
	}
	if reference == nil || read == nil {
		return nil, nil
	}
	runtime, err := read(ctx, reference)
	if errors.Is(err, ErrRuntimeNotKnown) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", reference, err)
	}
	scope.Runtime = reference.Policy(runtime)
	return runtime, nil
}
