package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// removedDefault denies the removal of a TTL where a max-ttl applies: a stamped object without a
// value has no TTL. A TTL that has no effect, because the kind never finishes or a runtime decides,
// may be removed.
var removedDefault = Rule{
	Name:   "removed-default",
	Fields: ttlFields,
	Transition: func(r *Request) []policy.Finding {
		severity, would := policy.Deny, ""
		limit := r.Scope.BoundsFor(r.Facts, policy.EnforcedBounds).TTL.Max
		if limit == nil {
			severity, would = policy.Warn, wouldBeRefused
			limit = r.Scope.BoundsFor(r.Facts, policy.TrialBounds).TTL.Max
		}
		if limit == nil || limit.Err != nil || !r.Facts.Profile.Finishable() || runtimeDecides(r.Facts, r.Scope) {
			return nil
		}
		level := limit.Source.Level
		if outer := r.Scope.BoundsFor(r.Facts, policy.OuterBounds).TTL.Max; outer != nil && outer.Err == nil {
			level = policy.LevelPolicy // The namespace's mode does not soften it.
		}
		before, after := r.OldFacts.TTLs(), r.Facts.TTLs()
		for _, outcome := range []policy.Outcome{policy.Succeeded, policy.Failed} {
			if removed := before.For(outcome); removed != nil && after.For(outcome) == nil {
				return []policy.Finding{{Field: removed.Path, Value: removed.Text, Severity: severity, Level: level,
					Message: fmt.Sprintf(would+"cannot be removed while %s applies: set it to %s or less", limit.Bound(), limit.TTL)}}
			}
		}
		return nil
	},
}
