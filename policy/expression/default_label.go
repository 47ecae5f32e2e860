package expression

import (
	"context"

	"curfew.dev/curfew/policy"
)

// GivesLabel reports whether the policy has a TTL label for objects of a kind that it matches.
func (p *Policy) GivesLabel(profile *policy.Profile) bool {
	return p.label != nil && p.match.concerns(profile.Kind.GroupKind()) && p.givesLabel(profile)
}

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
