package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// removedDefault refuses to take the TTL away where a max-ttl holds: a stamped object without a value has no TTL.
//
// Restricted fields: the native TTL and metadata.annotations[curfew.dev/ttl-after-*], once set.
// Allowed values: any within the bounds. What has no effect, on a kind that never finishes or beside a runtime that decides, may
// go.
var removedDefault = Rule{
	Name: "removed-default",
	Transition: func(r *Request) []policy.Finding {
		limit := r.Scope.EnforcedFor(r.Facts).MaxTTL
		if limit == nil || limit.Err != nil || !r.Facts.Profile.Finishable() || runtimeDecides(r.Facts, r.Scope) {
			return nil
		}
		level := limit.Source.Level
		if outer := r.Scope.OuterFor(r.Facts).MaxTTL; outer != nil && outer.Err == nil {
			level = policy.LevelPolicy // Which the namespace's mode does not soften.
		}
		before, after := r.OldFacts.TTLs(), r.Facts.TTLs()
		for _, outcome := range []policy.Outcome{policy.Succeeded, policy.Failed} {
			if removed := before.For(outcome); removed != nil && after.For(outcome) == nil {
				return []policy.Finding{{Field: removed.Path, Value: removed.Text, Severity: policy.Deny, Level: level,
					Message: fmt.Sprintf("cannot be removed while %s holds: set it to %s or less", limit.Bound(), limit.TTL)}}
			}
		}
		return nil
	},
}
