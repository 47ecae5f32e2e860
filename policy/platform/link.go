package platform

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

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
	var out []*expression.Profile
	for _, profile := range compiled {
		out = append(out, profile)
	}
	out = append(out, more...)
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
