package platform

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// parts are what a snapshot is made of.
type parts struct {
	// builtin come with Curfew; a KindProfile of the same kind takes their place.
	builtin []*expression.Profile
	// policies and profiles by name.
	policies map[string]*expression.Policy
	profiles map[string]*expression.Profile
	// definitions of the kinds that are served, by name.
	definitions map[string]*expression.Definition
}

// Snapshot is what the platform says at one moment. Nothing in it is changed.
type Snapshot struct {
	// Profiles of all kinds, linked.
	Profiles policy.Profiles
	// Policies in the order in which they are asked.
	Policies []*expression.Policy

	compiled map[schema.GroupKind]*expression.Profile
	runtimes map[schema.GroupKind]*expression.Runtime
	parts    parts
	// byKind are the policies that can speak of a kind: an index that fills as it is asked.
	byKind sync.Map
}

// Compiled is the profile of a kind with what feeds and deadlines need to know of it; nil where the kind has none.
func (s *Snapshot) Compiled(kind schema.GroupKind) *expression.Profile { return s.compiled[kind] }

// With is the snapshot as it would be with further policies and profiles; one of the same name gives way.
func (s *Snapshot) With(policies []*expression.Policy, profiles []*expression.Profile) *Snapshot {
	if len(policies)+len(profiles) == 0 {
		return s
	}
	more := parts{builtin: s.parts.builtin, policies: maps.Clone(s.parts.policies), profiles: maps.Clone(s.parts.profiles), definitions: s.parts.definitions}
	for _, added := range policies {
		more.policies[added.Name] = added
	}
	for _, added := range profiles {
		more.profiles[added.Name] = added
	}
	return more.snapshot()
}

func (p parts) snapshot() *Snapshot {
	p.policies, p.profiles, p.definitions = maps.Clone(p.policies), maps.Clone(p.profiles), maps.Clone(p.definitions)
	out := &Snapshot{compiled: map[schema.GroupKind]*expression.Profile{}, runtimes: map[schema.GroupKind]*expression.Runtime{}, parts: p}
	out.Policies = slices.Collect(maps.Values(p.policies))
	expression.Sort(out.Policies)
	all := slices.Clone(p.builtin)
	custom := map[schema.GroupKind]bool{}
	names := slices.Sorted(maps.Keys(p.profiles))
	slices.Reverse(names) // Of two for one kind the later holds, and that has to be the one whose name comes first.
	for _, name := range names {
		all = append(all, p.profiles[name])
		custom[p.profiles[name].Kind.GroupKind()] = true
	}
	p.serve(all)
	out.Profiles = link(all)
	// The readers in Go answer for the kinds of Kubernetes itself as their manifests do, without evaluating anything.
	for _, profile := range policy.BuiltinProfiles() {
		if kind := profile.Kind.GroupKind(); !custom[kind] {
			out.Profiles[kind] = profile
		}
	}
	for _, profile := range all {
		kind := profile.Kind.GroupKind()
		out.compiled[kind] = profile
		if profile.Runtime != nil {
			out.runtimes[kind] = profile.Runtime
		} else {
			delete(out.runtimes, kind)
		}
	}
	return out
}

// serve has the profiles hold as they do for the installed versions of their kinds.
func (p parts) serve(all []*expression.Profile) {
	byKind := make(map[schema.GroupKind]*expression.Definition, len(p.definitions))
	for _, definition := range p.definitions {
		byKind[definition.Kind] = definition
	}
	for i, profile := range all {
		if definition := byKind[profile.Kind.GroupKind()]; definition != nil {
			if fields, ok := definition.Serves(profile); ok {
				all[i] = profile.Installed(fields, func(kind schema.GroupKind) *expression.Definition { return byKind[kind] })
			}
		}
	}
}

func (p parts) profiled(definition *expression.Definition) bool {
	if definition == nil {
		return false
	}
	speaks := func(profile *expression.Profile) bool { return profile.Kind.GroupKind() == definition.Kind }
	for _, profile := range p.profiles {
		if speaks(profile) {
			return true
		}
	}
	return slices.ContainsFunc(p.builtin, speaks)
}

// link makes the profiles that rules judge by. Compiled profiles are shared by all snapshots, so that copies are linked.
func link(all []*expression.Profile) policy.Profiles {
	copies := make([]*expression.Profile, 0, len(all))
	for _, profile := range all {
		outer, inner := *profile, *profile.Profile
		outer.Profile = &inner
		copies = append(copies, &outer)
	}
	linked := expression.Link(copies...)
	out := make(policy.Profiles, len(linked))
	for kind, profile := range linked {
		out[kind] = profile.Profile
	}
	for _, user := range linked {
		if user.Runtime != nil {
			markRuntimes(out, user)
		}
	}
	return out
}

// markRuntimes lets the profiles of runtimes know whom they speak for. A runtime kind without a profile of its own gets one.
func markRuntimes(profiles policy.Profiles, user *expression.Profile) {
	for _, kind := range user.Runtime.Kinds() {
		profile, ok := profiles[kind.GroupKind()]
		if !ok {
			profile = &policy.Profile{Name: kind.Kind, Kind: kind, ClusterScoped: user.Runtime.ClusterScoped(kind.GroupKind())}
			profiles[kind.GroupKind()] = profile
		}
		profile.RuntimeOf, profile.UsedBy = user.Kind.Kind, user.Profile
		ttl, deadline := user.Runtime.Fields(kind.GroupKind())
		if profile.TTL == nil && len(ttl) > 0 {
			profile.TTL = ttl[0]
		}
		profile.AnnotatedDeadline = true // What it says there holds for those that use it, so that it has to be readable.
		if profile.Deadline == nil && len(deadline) > 0 {
			profile.Deadline = deadline[0]
		}
	}
}
