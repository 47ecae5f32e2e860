package backfill

import (
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

// kind is a kind that policies have a label for.
type kind struct {
	*discovery.Place
	profile  *policy.Profile
	policies []*expression.Policy
	// whole objects are read to judge them, not only their metadata.
	whole bool
}

func newKind(place *discovery.Place, snapshot *platform.Snapshot) *kind {
	out := &kind{Place: place, profile: snapshot.Profiles.For(place.GroupVersionKind)}
	out.whole = !out.profile.Unknown || mayBeManaged(place, snapshot, out.profile)
	for _, p := range snapshot.Concerning(place.GroupKind()) {
		out.whole = out.whole || p.NeedsObject() || p.ComputesLabel()
		if p.GivesLabel(out.profile) {
			out.policies = append(out.policies, p)
		}
	}
	return out
}

// mayBeManaged reports whether objects of a kind without a profile can name another controller.
// Built-in kinds cannot.
func mayBeManaged(place *discovery.Place, snapshot *platform.Snapshot, profile *policy.Profile) bool {
	if definition := snapshot.Definition(place.GroupKind()); definition != nil {
		return definition.Schemas[place.Version].Has(profile.ManagedBy)
	}
	return place.Aggregated
}
