package webhook

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Catalog is what the platform says: the profiles of kinds, built-in ones and KindProfiles, and the LifecyclePolicies, all
// compiled. Whoever changes it swaps a whole [Snapshot]; requests read that without a lock. It is safe for concurrent use.
type Catalog struct {
	compiler *expression.Compiler
	// builtin come with Curfew; a KindProfile of the same kind takes their place.
	builtin []*expression.Profile
	current atomic.Pointer[Snapshot]

	mu       sync.Mutex
	policies map[string]*expression.Policy
	profiles map[string]*expression.Profile
}

// NewCatalog returns a catalog of the profiles that come with Curfew (manifests/profiles), without policies.
func NewCatalog(builtin []*v1alpha1.KindProfile) (*Catalog, error) {
	out := &Catalog{
		compiler: expression.NewCompiler(expression.DefaultCacheSize),
		policies: map[string]*expression.Policy{},
		profiles: map[string]*expression.Profile{},
	}
	for _, object := range builtin {
		profile, errs := out.compiler.Profile(object)
		if err := errs.ToAggregate(); err != nil {
			return nil, fmt.Errorf("built-in profile %s: %w", object.Name, err)
		}
		out.builtin = append(out.builtin, profile)
	}
	out.swap()
	return out, nil
}

// Snapshot is the catalog as it stands at one moment. Nothing in it is changed.
func (c *Catalog) Snapshot() *Snapshot { return c.current.Load() }

// SetPolicy adds a LifecyclePolicy or takes its new generation. What cannot be used of it means keep (S6) and is returned.
func (c *Catalog) SetPolicy(object *v1alpha1.LifecyclePolicy) field.ErrorList {
	compiled, errs := c.compiler.Policy(object)
	c.change(func() { c.policies[object.Name] = compiled })
	return errs
}

// RemovePolicy forgets a LifecyclePolicy.
func (c *Catalog) RemovePolicy(name string) { c.change(func() { delete(c.policies, name) }) }

// SetProfile adds a KindProfile or takes its new generation. What cannot be used of it means keep (S6) and is returned.
func (c *Catalog) SetProfile(object *v1alpha1.KindProfile) field.ErrorList {
	compiled, errs := c.compiler.Profile(object)
	c.change(func() { c.profiles[object.Name] = compiled })
	return errs
}

// RemoveProfile forgets a KindProfile, so that a built-in one of the kind speaks again.
func (c *Catalog) RemoveProfile(name string) { c.change(func() { delete(c.profiles, name) }) }

func (c *Catalog) change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.swap()
}

func (c *Catalog) swap() {
	out := &Snapshot{runtimes: map[schema.GroupKind]*expression.Runtime{}}
	for _, name := range slices.Sorted(maps.Keys(c.policies)) {
		out.Policies = append(out.Policies, c.policies[name])
	}
	expression.Sort(out.Policies)
	all := slices.Clone(c.builtin)
	custom := map[schema.GroupKind]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.profiles)) {
		all = append(all, c.profiles[name])
		custom[c.profiles[name].Kind.GroupKind()] = true
	}
	out.Profiles = link(all)
	// The readers in Go answer for the kinds of Kubernetes itself as their manifests do, without evaluating anything.
	for _, profile := range policy.BuiltinProfiles() {
		if kind := profile.Kind.GroupKind(); !custom[kind] {
			out.Profiles[kind] = profile
		}
	}
	for _, profile := range all {
		kind := profile.Kind.GroupKind()
		if profile.Runtime != nil {
			out.runtimes[kind] = profile.Runtime
		} else {
			delete(out.runtimes, kind)
		}
	}
	c.current.Store(out)
}

// link makes the profiles that rules judge by. Compiled profiles are shared by all snapshots, so that copies are linked.
func link(all []*expression.Profile) policy.Profiles {
	copies := make([]*expression.Profile, 0, len(all))
	for _, profile := range all {
		outer, inner := *profile, *profile.Profile
		outer.Profile = &inner
		inner.ImmutableDeadline = profile.ImmutableDeadline
		inner.Forbidden = nil
		for _, forbidden := range profile.Forbidden {
			inner.Forbidden = append(inner.Forbidden, policy.Forbidden{Path: forbidden.Path, Reason: forbidden.Reason})
		}
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
			profile = &policy.Profile{Name: kind.Kind, Kind: kind}
			profiles[kind.GroupKind()] = profile
		}
		profile.RuntimeOf = user.Kind.Kind
		ttl, deadline := user.Runtime.Fields(kind.GroupKind())
		if profile.TTL == nil && len(ttl) > 0 {
			profile.TTL = ttl[0]
		}
		if profile.Deadline == nil && len(deadline) > 0 {
			profile.Deadline = deadline[0]
		}
	}
}

// Snapshot is what the platform says at one moment.
type Snapshot struct {
	// Profiles of all kinds, linked.
	Profiles policy.Profiles
	// Policies in the order in which they are asked.
	Policies []*expression.Policy

	runtimes map[schema.GroupKind]*expression.Runtime
}

// Runtime says which runtime objects of a kind use; nil where the kind knows none.
func (s *Snapshot) Runtime(kind schema.GroupKind) *expression.Runtime { return s.runtimes[kind] }

// concerning are the policies that can speak of a kind, in their order; none of them costs nothing.
func (s *Snapshot) concerning(kind schema.GroupKind) []*expression.Policy {
	for i, candidate := range s.Policies {
		if candidate.Concerns(kind) {
			out := []*expression.Policy{candidate}
			for _, other := range s.Policies[i+1:] {
				if other.Concerns(kind) {
					out = append(out, other)
				}
			}
			return out
		}
	}
	return nil
}
