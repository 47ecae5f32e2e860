package expression

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// GivesLabel reports whether the policy has a TTL label for objects of a kind that it matches.
func (p *Policy) GivesLabel(profile *policy.Profile) bool {
	return p.label != nil && p.match.concerns(profile.Kind.GroupKind()) && p.givesLabel(profile)
}

// NotLabelled are the kinds that the policy names and gives no TTL label to, although it has one.
func (p *Policy) NotLabelled() []schema.GroupKind {
	var out []schema.GroupKind
	for _, named := range p.match.kinds {
		kind := schema.GroupKind{Group: named.Group, Kind: named.Kind}
		if p.label != nil && (policy.EssentialKind(kind) || policy.UnchangingKind(kind)) {
			out = append(out, kind)
		}
	}
	return out
}

// HasLabel reports whether the policy has a default TTL label.
func (p *Policy) HasLabel() bool { return p.label != nil }

// ComputesLabel reports whether an expression computes the policy's TTL label.
func (p *Policy) ComputesLabel() bool { return p.label != nil && p.label.program != nil }

// MayLabel reports whether an existing object may be given the policy's label, by its metadata and
// its namespace. False is final.
func (p *Policy) MayLabel(ctx context.Context, facts *policy.Facts, variables *Variables) bool {
	if !p.Backfill && (p.Since.IsZero() || !facts.Created.After(p.Since)) {
		return false
	}
	cheap := p.match
	cheap.conditions = nil
	may, err := cheap.holds(ctx, facts, variables)
	return may || err != nil
}
