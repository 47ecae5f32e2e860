package expression

import (
	"context"

	"curfew.dev/curfew/policy"
)

// BoundsLabels reports whether the policy can keep an object whose TTL label lies outside of its bounds.
func (p *Policy) BoundsLabels() bool {
	return p.Bounds.TTL != (policy.Range{}) || !p.LatestDate.IsZero() || p.latestUnreadable != nil
}

// NeedsObject reports whether more than an object's metadata is needed to tell whether the policy speaks of it.
func (p *Policy) NeedsObject() bool { return len(p.match.conditions) > 0 }

// LabelBounds is what sorted policies bound the TTL label of one object by; of what else they say there is nothing in it. Where
// variables hold only the metadata (whole is false), policies that have to see more are left out, and undecided tells so: the
// object is then to be looked at whole before it is deleted.
func LabelBounds(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables, whole bool) (
	out []*policy.PlatformPolicy, undecided bool, errs []error,
) {
	for _, p := range policies {
		if !p.BoundsLabels() {
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
			out = append(out, &policy.PlatformPolicy{Name: p.Name, WarnOnly: said.WarnOnly,
				Bounds: policy.Bounds{TTL: said.Bounds.TTL}, LatestUnreadable: said.LatestUnreadable})
			errs = append(errs, p.failure(err))
		case matched:
			out = append(out, &policy.PlatformPolicy{Name: p.Name, WarnOnly: said.WarnOnly,
				Bounds: policy.Bounds{TTL: p.Bounds.TTL}, LatestDate: p.LatestDate, LatestUnreadable: p.latestUnreadable})
		}
	}
	return out, undecided, errs
}
