package expression

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// ConcernsLabels reports whether the policy bounds TTL labels, or sets the propagation of
// deletions.
func (p *Policy) ConcernsLabels() bool {
	return p.Propagation != "" || p.Bounds.Label != (lifetime.Range{}) || !p.LatestDate.IsZero() || p.latestUnreadable != nil
}

// NeedsWhole reports whether it takes more of an object than its metadata to know the bounds that
// policies set for its TTL label, or whether one of them gave the object its label.
func NeedsWhole(policies []*Policy) bool {
	return slices.ContainsFunc(policies, func(p *Policy) bool {
		return p.ConcernsLabels() && p.NeedsObject() || p.HasLabel() && (p.NeedsObject() || p.ComputesLabel())
	})
}

// NeedsObject reports whether the policy's match needs more of an object than its metadata.
func (p *Policy) NeedsObject() bool { return len(p.match.conditions) > 0 }

// LabelBounds are the bounds that sorted policies set for the TTL label and the protection of one
// object and the propagation of its deletion, and nothing else of them. If variables hold only the
// metadata (whole is false), policies that need more are left out and undecided is true: the whole
// object must then be read before it is deleted.
func LabelBounds(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables, whole bool) (
	out []*resolution.PlatformPolicy, undecided bool, errs []error,
) {
	for _, p := range policies {
		if !p.ConcernsLabels() && (p.protect == nil || !whole) {
			continue
		}
		if p.NeedsObject() && !whole {
			cheap := p.match
			cheap.conditions = nil
			if may, err := cheap.holds(ctx, facts, variables); may || err != nil {
				undecided = true
			}
			continue
		}
		matched, err := p.match.holds(ctx, facts, variables)
		switch said := p.unusable(err); {
		case err != nil:
			out = append(out, &resolution.PlatformPolicy{Name: p.Name, Mode: p.Mode,
				Bounds: lifetime.Bounds{Label: said.Bounds.Label}, LatestDate: said.LatestDate, LatestUnreadable: said.LatestUnreadable, PropagationErr: said.PropagationErr, Protect: said.Protect})
			errs = append(errs, p.failure(err))
		case matched:
			out = append(out, &resolution.PlatformPolicy{Name: p.Name, Mode: p.Mode,
				Bounds: lifetime.Bounds{Label: p.Bounds.Label}, LatestDate: p.LatestDate, LatestUnreadable: p.latestUnreadable, Propagation: p.Propagation, Protect: p.protect})
		}
	}
	return out, undecided, errs
}

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
