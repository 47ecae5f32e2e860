package rules

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Reached is how many finished objects a runtime's TTL reaches by backfill. Rules have no client:
// the edge counts if [Backfills] says so.
type Reached struct {
	// Known is false if the edge did not count.
	Known bool
	Count int
	// More means that there may be more than Count.
	More bool
}

// runtimeBackfill warns that a runtime's TTL is about to delete objects that finished before the
// runtime had it, and of how many; or, where the TTL of an existing runtime changes, that it never
// will.
var runtimeBackfill = Rule{
	Name:   "runtime-backfill",
	Fields: annotations(wellknown.AnnotationBackfill),
	Review: func(r *Request) []Finding {
		if leavesFinished(r) {
			return []Finding{warning(policy.AnnotationPath(wellknown.AnnotationBackfill), r.Facts.Annotations[wellknown.AnnotationBackfill],
				"the new TTL does not delete "+r.Facts.Profile.RuntimeOf+"s that have finished already: set "+wellknown.AnnotationBackfill+`: "true" to delete these, too`)}
		}
		if !Backfills(r) {
			return nil
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
		return []Finding{warning(policy.AnnotationPath(wellknown.AnnotationBackfill), "true",
			"lets the TTL delete "+what+" that finished before the runtime had it, at most 1000 a minute"+unknown)}
	},
}

// Backfills reports whether a request lets the TTL of a runtime reach what finished before: it sets
// backfill, or another TTL beside it.
func Backfills(r *Request) bool {
	if r.Facts.Annotations[wellknown.AnnotationBackfill] != "true" {
		return false
	}
	set, changed := newRuntimeTTL(r)
	return set && (changed || r.OldFacts == nil || r.OldFacts.Annotations[wellknown.AnnotationBackfill] != "true")
}

// leavesFinished reports whether a request sets or changes the TTL of an existing runtime without
// backfill. A TTL of never, or one that cannot be read, deletes nothing at all.
func leavesFinished(r *Request) bool {
	_, changed := newRuntimeTTL(r)
	return changed && r.OldFacts != nil && r.Facts.Annotations[wellknown.AnnotationBackfill] != "true" &&
		slices.ContainsFunc(r.Facts.TTLs().Settings(), func(ttl *lifetime.Setting) bool { return ttl.Err == nil && !ttl.TTL.Never })
}

// newRuntimeTTL reports whether a runtime has a TTL after a request, and whether it had another one
// or none before.
func newRuntimeTTL(r *Request) (set, changed bool) {
	if r.Facts.Profile.RuntimeOf == "" || r.Facts.Deleting {
		return false, false
	}
	fields := r.Facts.Profile.RuntimeTTLs
	ttl := resolution.RuntimeHash(r.Object, fields)
	return ttl != "", ttl != "" && (r.OldFacts == nil || resolution.RuntimeHash(r.Old, fields) != ttl)
}
