package rules

import (
	"errors"
	"fmt"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// removedDefault denies the removal of a TTL where a max-ttl applies: a stamped object without a
// value has no TTL. A TTL that has no effect, because the kind never finishes or a runtime decides,
// may be removed.
var removedDefault = Rule{
	Name:   "removed-default",
	Fields: ttlFields,
	Transition: func(r *Request) {
		severity, would := Deny, ""
		limit := r.Scope.BoundsFor(r.Facts, resolution.EnforcedBounds).TTL.Max
		if limit == nil {
			severity, would = Warn, wouldBeRefused
			limit = r.Scope.BoundsFor(r.Facts, resolution.TrialBounds).TTL.Max
		}
		stopped := (*lifetime.UndecidedError)(nil)
		unreadable := limit == nil || limit.Err != nil && (severity == Warn || !errors.As(limit.Err, &stopped))
		if unreadable || !r.Facts.Profile.Finishable() || runtimeDecides(r.Facts, r.Scope) {
			return
		}
		level := limit.Source.Level
		if outer := r.Scope.BoundsFor(r.Facts, resolution.OuterBounds).TTL.Max; outer != nil && (outer.Err == nil || stopped != nil) {
			level = lifetime.LevelPolicy // The namespace's mode does not soften it.
		}
		before, after := r.OldFacts.TTLs(), r.Facts.TTLs()
		for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
			if removed := before.For(outcome); removed != nil && after.For(outcome) == nil {
				found := r.add(severity, removed.Path, removed.Text, "")
				if found.Level = level; stopped != nil { // The author could make the object large enough for that.
					found.Message, found.Retry = "cannot be removed: "+(&lifetime.UnreadableBoundError{Bound: limit}).Error(), stopped.Retry
				} else {
					found.Message = fmt.Sprintf(would+"cannot be removed while %s applies: set it to %s or less", limit.Bound(), limit.TTL)
				}
				return
			}
		}
	},
}
