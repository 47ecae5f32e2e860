package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/resolution"
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

// Definition is the CustomResourceDefinition of a kind, also if no profile names the kind yet; nil
// if none is known.
func (s *Store) Definition(kind schema.GroupKind) *expression.Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.byKind()[kind]
}

// SetIncomplete notes why not all KindProfiles are known, nil once they are.
func (s *Store) SetIncomplete(why error) { s.change(func() { s.parts.incomplete = why }) }

// SetNoMultiKueue sets [Snapshot.NoMultiKueue].
func (s *Store) SetNoMultiKueue(f func(context.Context) (bool, error)) {
	s.change(func() { s.parts.noMultiKueue = f })
}

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
	named := func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == definition.Kind }
	for _, profile := range s.compiled {
		if profile.Runtime != nil && slices.ContainsFunc(profile.Runtime.Kinds(), named) {
			return true
		}
	}
	return false
}

// Source reads the objects that decide how Curfew treats an object: from a cache, live, from files,
// or once for a command.
//
// Namespace, Runtime and PodCounter may return [ErrUnknown], and Runtime an [UnreadableError]. Any
// other error ends [ContextOf].
type Source interface {
	// Snapshot is the platform to judge one object by.
	Snapshot(ctx context.Context) (*Snapshot, error)
	// Namespace returns the settings of a namespace. It is nil if the namespace does not exist any
	// more: Kubernetes deletes its objects.
	Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error)
	// Runtime is the runtime that an object refers to. It is nil if there is none, or if its kind is
	// not served.
	Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error)
	// PodCounter returns the Job or PodTally that counts a Pod; nil for a Pod that nothing counts.
	PodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error)
}

// ErrUnknown means that a [Source] has no way to find out. Callers must conclude nothing from it.
var ErrUnknown = errors.New("not known")

// UnreadableError means that a runtime cannot be read at the moment. The objects that use it are
// kept, as if it were gone (S6).
type UnreadableError struct{ Err error }

// Error implements error.
func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Offline is a [Source] without a cluster, which knows no namespace and no runtime.
type Offline struct{ Platform *Snapshot }

// Snapshot implements [Source].
func (o Offline) Snapshot(context.Context) (*Snapshot, error) { return o.Platform, nil }

// Namespace implements [Source].
func (Offline) Namespace(context.Context, string) (*resolution.NamespacePolicy, error) {
	return nil, ErrUnknown
}

// Runtime implements [Source].
func (Offline) Runtime(context.Context, *expression.Reference) (map[string]any, error) {
	return nil, ErrUnknown
}

// PodCounter implements [Source].
func (Offline) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, ErrUnknown
}

// Served is a kind that has a profile, or that others use as their runtime, as the API server
// serves it.
type Served struct {
	// Profile as it applies to the installed version, linked with the profiles of the templates
	// inside.
	*expression.Profile
	// Schema of the installed version.
	Schema *expression.Schema
	// TTL and Deadline are the fields in which a runtime of the kind sets the TTL and the deadline of
	// the objects that use it.
	TTL, Deadline []fieldpath.FieldPath
	// IsRuntime means that objects of other kinds may use objects of this kind as their runtime.
	IsRuntime bool
	// RuntimeSets means that a runtime which objects of the kind may use has a deadline or a TTL, or
	// that this is not known.
	RuntimeSets bool
}

// Served are the kinds that CustomResourceDefinitions serve and admission can have something to say
// about, in the order of their names.
func (s *Snapshot) Served() []Served {
	used, bare := map[schema.GroupKind][]*expression.Runtime{}, map[schema.GroupKind]*expression.Profile{}
	for profile := range s.Installed() {
		if profile.Runtime == nil {
			continue
		}
		for _, referred := range profile.Runtime.Profiles() {
			kind := referred.Kind.GroupKind()
			used[kind] = append(used[kind], profile.Runtime)
			if s.compiled[kind] == nil {
				bare[kind] = referred
			}
		}
	}
	var out []Served
	for _, profile := range linkedCopies(s.compiled, slices.Collect(maps.Values(bare))...) {
		definition := s.definitions[profile.Kind.GroupKind()]
		if definition == nil {
			continue
		}
		if fields, ok := definition.Serves(profile); ok {
			served := Served{Profile: profile, Schema: fields, IsRuntime: len(used[profile.Kind.GroupKind()]) > 0}
			for _, runtime := range used[profile.Kind.GroupKind()] {
				served.add(runtime.Fields(profile.Kind.GroupKind()))
			}
			out = append(out, served)
		}
	}
	return out
}

func (s *Served) add(ttl, deadline []fieldpath.FieldPath) {
	for _, path := range ttl {
		if s.Schema.Has(path) && !contains(s.TTL, path) {
			s.TTL = append(s.TTL, path)
		}
	}
	for _, path := range deadline {
		if s.Schema.Has(path) && !contains(s.Deadline, path) {
			s.Deadline = append(s.Deadline, path)
		}
	}
}

func contains(paths []fieldpath.FieldPath, fieldPath fieldpath.FieldPath) bool {
	return slices.ContainsFunc(paths, func(path fieldpath.FieldPath) bool { return slices.Equal(path, fieldPath) })
}
