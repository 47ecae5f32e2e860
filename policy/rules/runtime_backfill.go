package rules

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// runtimeBackfill warns that a runtime's TTL is about to delete objects that finished before the
// runtime had it, and of how many; or, where the TTL of an existing runtime changes, that it never
// will.
var runtimeBackfill = Rule{
	Name:   "runtime-backfill",
	Fields: annotations(wellknown.AnnotationBackfill),
	Review: func(r *Request) {
		if leavesFinished(r) {
			r.warn(policy.AnnotationPath(wellknown.AnnotationBackfill), r.Facts.Annotations[wellknown.AnnotationBackfill],
				fmt.Sprintf(`the new TTL does not delete %ss that have finished already: set %s: "true" to delete these, too`,
					r.Facts.Profile.RuntimeOf, wellknown.AnnotationBackfill))
			return
		}
		if !Backfills(r) {
			return
		}
		what, unknown := r.Facts.Profile.RuntimeOf+"s", "; how many is not known"
		if reached := r.Reached; reached.Known {
			what, unknown = fmt.Sprintf("%d %s", reached.Count, what), ""
			switch {
			case reached.More:
				what = "at least " + what
			case reached.Count == 1:
				what = "1 " + r.Facts.Profile.RuntimeOf
			}
		}
		r.warn(policy.AnnotationPath(wellknown.AnnotationBackfill), "true",
			"lets the TTL delete "+what+" that finished before the runtime had it, at most 1000 a minute"+unknown)
	},
}

// leavesFinished reports whether a request sets or changes the TTL of an existing runtime without
// backfill. A TTL of never, or one that cannot be read, deletes nothing at all.
func leavesFinished(r *Request) bool {
	_, changed := newRuntimeTTL(r)
	return changed && r.OldFacts != nil && r.Facts.Annotations[wellknown.AnnotationBackfill] != "true" &&
		slices.ContainsFunc(r.Facts.TTLs().Settings(), (*lifetime.Setting).Ends)
}
