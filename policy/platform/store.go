package platform

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Store is what the platform says, kept in step with its objects. Whoever changes it swaps a whole [Snapshot]; readers take that
// without a lock. It is safe for concurrent use.
type Store struct {
	compiler *expression.Compiler
	current  atomic.Pointer[Snapshot]

	mu    sync.Mutex
	parts parts
}

// New returns a catalog of the profiles that come with Curfew (manifests/profiles), without policies.
func New(builtin []*v1alpha1.KindProfile) (*Store, error) {
	out := &Store{compiler: expression.NewCompiler(expression.DefaultCacheSize), parts: parts{
		policies:    map[string]*expression.Policy{},
		profiles:    map[string]*expression.Profile{},
		definitions: map[string]*expression.Definition{},
	}}
	for _, object := range builtin {
		profile, errs := out.compiler.Profile(object)
		if err := errs.ToAggregate(); err != nil {
			return nil, fmt.Errorf("built-in profile %s: %w", object.Name, err)
		}
		out.parts.builtin = append(out.parts.builtin, profile)
	}
	out.current.Store(out.parts.snapshot())
	return out, nil
}

// Snapshot is the catalog as it stands at one moment. Nothing in it is changed.
func (s *Store) Snapshot() *Snapshot { return s.current.Load() }

// SetPolicy adds a LifecyclePolicy or takes its new generation. What cannot be used of it means keep (S6) and is returned.
func (s *Store) SetPolicy(object *v1alpha1.LifecyclePolicy) field.ErrorList {
	compiled, errs := s.compiler.Policy(object)
	s.change(func() { s.parts.policies[object.Name] = compiled })
	return errs
}

// RemovePolicy forgets a LifecyclePolicy.
func (s *Store) RemovePolicy(name string) { s.change(func() { delete(s.parts.policies, name) }) }

// SetProfile adds a KindProfile or takes its new generation. What cannot be used of it means keep (S6) and is returned.
func (s *Store) SetProfile(object *v1alpha1.KindProfile) field.ErrorList {
	compiled, errs := s.compiler.Profile(object)
	s.change(func() { s.parts.profiles[object.Name] = compiled })
	return errs
}

// RemoveProfile forgets a KindProfile, so that a built-in one of the kind speaks again.
func (s *Store) RemoveProfile(name string) { s.change(func() { delete(s.parts.profiles, name) }) }

// SetDefinition notes what a CustomResourceDefinition serves: profiles then hold as they do for the installed version of their
// kind. The profile of a kind of which no definition is known holds as it is written.
func (s *Store) SetDefinition(name string, definition *expression.Definition) {
	s.define(name, func() { s.parts.definitions[name] = definition })
}

// RemoveDefinition forgets a CustomResourceDefinition.
func (s *Store) RemoveDefinition(name string) {
	s.define(name, func() { delete(s.parts.definitions, name) })
}

// define changes a definition. Most are of kinds without a profile, and change nothing for anybody.
func (s *Store) define(name string, change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.parts.definitions[name]
	change()
	if s.parts.profiled(before) || s.parts.profiled(s.parts.definitions[name]) {
		s.current.Store(s.parts.snapshot())
	}
}

func (s *Store) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.current.Store(s.parts.snapshot())
}
