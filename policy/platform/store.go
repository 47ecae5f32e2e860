package platform

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Store keeps a [Snapshot] current. A change swaps the whole snapshot, so that readers need no
// lock. It is safe for concurrent use.
type Store struct {
	compiler *expression.Compiler
	current  atomic.Pointer[Snapshot]

	mu    sync.Mutex
	parts parts
}

// New returns a store of the profiles that come with Curfew (manifests/profiles), without policies.
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

// Snapshot is the platform at this moment.
func (s *Store) Snapshot() *Snapshot { return s.current.Load() }

// Compiler returns the compiler of the store. Compiling the same generation again costs little.
func (s *Store) Compiler() *expression.Compiler { return s.compiler }

// SetPolicy adds a LifecyclePolicy or replaces its previous generation. What cannot be used of it
// means keep (S6) and is returned.
func (s *Store) SetPolicy(object *v1alpha1.LifecyclePolicy) field.ErrorList {
	compiled, errs := s.compiler.Policy(object)
	s.PutPolicy(object.Name, compiled)
	return errs
}

// PutPolicy is [Store.SetPolicy] for a compiled policy; nil removes it.
func (s *Store) PutPolicy(name string, compiled *expression.Policy) {
	s.change(func() { put(s.parts.policies, name, compiled) })
}

// SetProfile adds a KindProfile or replaces its previous generation. What cannot be used of it
// means keep (S6) and is returned.
func (s *Store) SetProfile(object *v1alpha1.KindProfile) field.ErrorList {
	compiled, errs := s.compiler.UserProfile(object)
	s.PutProfile(object.Name, compiled)
	return errs
}

// PutProfile is [Store.SetProfile] for a compiled profile; nil removes it.
func (s *Store) PutProfile(name string, compiled *expression.Profile) {
	s.change(func() { put(s.parts.profiles, name, compiled) })
}

// SetDefinition notes what a CustomResourceDefinition serves: the profile of its kind then applies
// as the installed version allows. The profile of a kind without a known definition applies as it
// is written. Most definitions are of kinds that no profile names, and change nothing.
func (s *Store) SetDefinition(name string, definition *expression.Definition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.parts.definitions[name]
	put(s.parts.definitions, name, definition)
	if now := s.current.Load(); now.names(before) || now.names(definition) {
		s.current.Store(s.parts.snapshot())
	}
}

// SetIncomplete notes why not all KindProfiles are known, nil once they are.
func (s *Store) SetIncomplete(why error) { s.change(func() { s.parts.incomplete = why }) }

func (s *Store) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.current.Store(s.parts.snapshot())
}

func put[V any](into map[string]*V, name string, value *V) {
	if value == nil {
		delete(into, name)
		return
	}
	into[name] = value
}

// names reports whether a profile is about the kind of a definition, or refers to it.
func (s *Snapshot) names(definition *expression.Definition) bool {
	if definition == nil {
		return false
	}
	if s.compiled[definition.Kind] != nil {
		return true
	}
	for _, profile := range s.compiled {
		if profile.Runtime != nil && slices.ContainsFunc(profile.Runtime.Kinds(), func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == definition.Kind }) {
			return true
		}
	}
	return false
}
