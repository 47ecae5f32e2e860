package platform

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
)

// parts are the contents of a snapshot.
type parts struct {
	// builtin profiles come with Curfew; a KindProfile of the same kind replaces one.
	builtin []*expression.Profile
	// policies, profiles and definitions by name.
	policies    map[string]*expression.Policy
	profiles    map[string]*expression.Profile
	definitions map[string]*expression.Definition
	// incomplete is why not all KindProfiles are known.
	incomplete error
	// noMultiKueue is Snapshot.NoMultiKueue.
	noMultiKueue func(context.Context) (bool, error)
}

// Snapshot is the platform at one moment. It is immutable.
type Snapshot struct {
	// Profiles of all kinds, linked.
	Profiles policy.Profiles
	// Policies in order of precedence.
	Policies []*expression.Policy
	// NoMultiKueue reports whether Kueue's CRD is surely not served at this moment; nil where that is
	// never known. It may ask the API server.
	NoMultiKueue func(context.Context) (bool, error)

	// compiled is the profile of each kind, as it applies to the installed version, and definitions
	// what serves it.
	compiled    map[schema.GroupKind]*expression.Profile
	definitions map[schema.GroupKind]*expression.Definition
	parts       parts
	// byKind is an index of the policies that fills as it is asked.
	byKind *sync.Map
}

// SnapshotOf is the platform with these profiles and nothing else, apart from what serves their
// kinds.
func SnapshotOf(profiles []*expression.Profile, definitions []expression.Definition) *Snapshot {
	sorted := parts{builtin: profiles, definitions: map[string]*expression.Definition{}}
	for i := range definitions {
		sorted.definitions[definitions[i].Kind.String()] = &definitions[i]
	}
	return sorted.snapshot()
}

// Compiled is the profile of a kind with all that feeds and deadlines need; nil for a kind without
// one.
func (s *Snapshot) Compiled(kind schema.GroupKind) *expression.Profile { return s.compiled[kind] }

// Incomplete is why not all KindProfiles are known yet; nil once they are.
func (s *Snapshot) Incomplete() error { return s.parts.incomplete }

// Installed are the profiles of the kinds that are served as their profile says, and by which
// definition.
func (s *Snapshot) Installed() map[*expression.Profile]*expression.Definition {
	out := map[*expression.Profile]*expression.Definition{}
	for kind, profile := range s.compiled {
		if definition := s.definitions[kind]; definition != nil {
			if _, ok := definition.Serves(profile); ok {
				out[profile] = definition
			}
		}
	}
	return out
}

// Definition is the CustomResourceDefinition of a kind; nil if there is none.
func (s *Snapshot) Definition(kind schema.GroupKind) *expression.Definition {
	return s.definitions[kind]
}

// Propagation is the propagation policy of the profile of a kind, whatever the trigger; "" if it
// says nothing. It is an error until the KindProfiles are known, since one of them may say that
// dependents stay.
func (s *Snapshot) Propagation(kind schema.GroupKind) (metav1.DeletionPropagation, error) {
	if profile := s.compiled[kind]; profile != nil && s.parts.incomplete == nil {
		return profile.Propagation, nil
	}
	return "", s.parts.incomplete
}

// RuntimeOf says which runtimes objects of a kind refer to; nil if they refer to none.
func (s *Snapshot) RuntimeOf(kind schema.GroupKind) *expression.Runtime {
	if profile := s.compiled[kind]; profile != nil {
		return profile.Runtime
	}
	return nil
}

// Reference says which runtime an object uses; nil if it uses none, or if its reference cannot be
// read.
func (s *Snapshot) Reference(facts *policy.Facts, object map[string]any) *expression.Reference {
	kind := s.RuntimeOf(facts.Profile.Kind.GroupKind())
	if kind == nil {
		return nil
	}
	reference, err := kind.Reference(facts.Namespace, object)
	if err != nil {
		return nil
	}
	return reference
}

// WithoutMultiKueue is [Snapshot.NoMultiKueue], asked only for an object with MultiKueue's label.
func (s *Snapshot) WithoutMultiKueue(ctx context.Context, facts *policy.Facts) (bool, error) {
	if s.NoMultiKueue == nil || !facts.MultiKueueCopy() {
		return false, nil
	}
	return s.NoMultiKueue(ctx)
}

// Concerning are the policies that can apply to a kind, in order of precedence.
func (s *Snapshot) Concerning(kind schema.GroupKind) []*expression.Policy {
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
	// Kinds without a profile are not remembered: clients can make up any number of them.
	if _, ok := s.Profiles[kind]; ok {
		s.byKind.Store(kind, out)
	}
	return out
}

// Bounding are the policies whose bounds apply in a namespace, in order of precedence.
func (s *Snapshot) Bounding(namespace *resolution.NamespacePolicy) []*resolution.PlatformPolicy {
	return bounding(s.Policies, namespace)
}

// BoundingUsers are the policies whose bounds apply there to the objects that an object of the kind
// sets a TTL for: the objects that use a runtime, and the Pods of a Job.
func (s *Snapshot) BoundingUsers(profile *policy.Profile) func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy {
	switch kind := profile.Kind.GroupKind(); {
	case profile.UsedBy != nil:
		return s.BoundingKind(profile.UsedBy.Kind.GroupKind())
	case kind == policy.JobProfile.Kind.GroupKind(), kind == policy.CronJobProfile.Kind.GroupKind():
		return s.BoundingKind(policy.PodProfile.Kind.GroupKind())
	}
	return nil
}

// BoundingKind are the policies whose bounds apply there to a kind.
func (s *Snapshot) BoundingKind(kind schema.GroupKind) func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy {
	concerning := s.Concerning(kind)
	return func(namespace *resolution.NamespacePolicy) []*resolution.PlatformPolicy {
		return bounding(concerning, namespace)
	}
}

func bounding(policies []*expression.Policy, namespace *resolution.NamespacePolicy) []*resolution.PlatformPolicy {
	var out []*resolution.PlatformPolicy
	for _, candidate := range policies {
		if platformPolicy := candidate.Bounding(namespace); platformPolicy != nil {
			out = append(out, platformPolicy)
		}
	}
	return out
}

// With returns the snapshot with further policies and profiles. They replace others of the same
// name.
func (s *Snapshot) With(policies []*expression.Policy, profiles []*expression.Profile) *Snapshot {
	if len(policies)+len(profiles) == 0 {
		return s
	}
	more := s.parts
	more.policies, more.profiles = maps.Clone(more.policies), maps.Clone(more.profiles)
	for _, added := range policies {
		more.policies[added.Name] = added
	}
	for _, added := range profiles {
		more.profiles[added.Name] = added
	}
	return more.snapshot()
}

// WithPolicies is the snapshot with these policies in place of its own, as they were just read.
func (s *Snapshot) WithPolicies(policies []*expression.Policy) *Snapshot {
	out := *s
	out.Policies, out.byKind = slices.Clone(policies), &sync.Map{}
	expression.Sort(out.Policies)
	return &out
}

// WithProfiles is the snapshot with these KindProfiles in place of its own, as they were just read.
func (s *Snapshot) WithProfiles(profiles map[string]*expression.Profile) *Snapshot {
	if s.parts.incomplete == nil && maps.EqualFunc(profiles, s.parts.profiles, (*expression.Profile).Same) {
		return s
	}
	live := s.parts
	live.profiles, live.incomplete = profiles, nil
	return live.snapshot()
}

// snapshot is where precedence is decided: of two KindProfiles for one kind the first by name
// counts, and any of them before a built-in profile, unless the kind has code of its own. Each
// profile then applies as the installed version of its kind allows.
func (p parts) snapshot() *Snapshot {
	p.policies, p.profiles, p.definitions = maps.Clone(p.policies), maps.Clone(p.profiles), maps.Clone(p.definitions)
	out := &Snapshot{compiled: map[schema.GroupKind]*expression.Profile{}, definitions: p.byKind(), parts: p, byKind: &sync.Map{}}
	out.NoMultiKueue = p.noMultiKueue
	out.Policies = slices.Collect(maps.Values(p.policies))
	expression.Sort(out.Policies)
	for _, profile := range p.builtin {
		out.compiled[profile.Kind.GroupKind()] = profile
	}
	names := slices.Sorted(maps.Keys(p.profiles))
	slices.Reverse(names)
	own := map[schema.GroupKind]bool{}
	for _, name := range names {
		if kind := p.profiles[name].Kind.GroupKind(); !policy.HasOwnCode(kind) {
			out.compiled[kind], own[kind] = p.profiles[name], true
		}
	}
	for kind, profile := range out.compiled {
		if definition := out.definitions[kind]; definition != nil {
			if fields, ok := definition.Serves(profile); ok {
				out.compiled[kind] = profile.Installed(fields, out.Definition)
			}
		}
	}
	out.Profiles = link(out.compiled)
	// For the kinds of Kubernetes itself, the readers in Go say what their manifests say, without
	// evaluating anything.
	for _, profile := range policy.BuiltinProfiles() {
		if kind := profile.Kind.GroupKind(); !own[kind] {
			out.Profiles[kind] = profile
		}
	}
	return out
}

// byKind indexes the definitions. Of two for one kind, the API server serves one.
func (p parts) byKind() map[schema.GroupKind]*expression.Definition {
	out := make(map[schema.GroupKind]*expression.Definition, len(p.definitions))
	for _, name := range slices.Sorted(maps.Keys(p.definitions)) {
		definition := p.definitions[name]
		if known := out[definition.Kind]; known == nil || len(known.Schemas) == 0 {
			out[definition.Kind] = definition
		}
	}
	return out
}

// link makes the profiles that rules judge by. Compiled profiles are shared by all snapshots, so
// that copies are linked.
func link(compiled map[schema.GroupKind]*expression.Profile) policy.Profiles {
	linked := linkedCopies(compiled)
	out := make(policy.Profiles, len(linked))
	for _, profile := range linked {
		out[profile.Kind.GroupKind()] = profile.Profile
	}
	for _, user := range linked {
		if user.Runtime != nil {
			markRuntimes(out, user)
		}
	}
	return out
}

// linkedCopies are copies of profiles, and of more of them, whose templates lead to each other.
// They are in the order of kinds.
func linkedCopies(compiled map[schema.GroupKind]*expression.Profile, more ...*expression.Profile) []*expression.Profile {
	out := append(slices.Collect(maps.Values(compiled)), more...)
	for i, profile := range out {
		outer, inner := *profile, *profile.Profile
		outer.Profile = &inner
		out[i] = &outer
	}
	expression.Link(out...)
	slices.SortFunc(out, func(a, b *expression.Profile) int {
		return cmp.Or(cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

// markRuntimes notes on the profiles of runtimes which kind uses them. A runtime kind without a
// profile gets one.
func markRuntimes(profiles policy.Profiles, user *expression.Profile) {
	for _, kind := range user.Runtime.Kinds() {
		profile, ok := profiles[kind.GroupKind()]
		if !ok {
			profile = &policy.Profile{Name: kind.Kind, Kind: kind, ClusterScoped: user.Runtime.ClusterScoped(kind.GroupKind())}
			profiles[kind.GroupKind()] = profile
		}
		profile.RuntimeOf, profile.UsedBy = user.Kind.Kind, user.Profile
		ttl, deadline := user.Runtime.Fields(kind.GroupKind())
		profile.RuntimeTTLs = append(profile.RuntimeTTLs, ttl...)
		if profile.TTL == nil && len(ttl) > 0 {
			profile.TTL = ttl[0]
		}
		profile.AnnotatedDeadline = true // It applies to the objects that use the runtime, so that it has to be readable.
		if profile.Deadline == nil && len(deadline) > 0 {
			profile.Deadline = deadline[0]
		}
	}
}
