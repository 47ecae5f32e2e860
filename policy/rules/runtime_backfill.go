package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// Reached is how many finished objects a runtime's TTL reaches by backfill. Rules have no client:
// the edge counts if [Backfills] says so.
type Reached struct {
	// Known is false if nobody counted.
	Known bool
	Count int
	// More means that there may be more than Count.
	More bool
}

// runtimeBackfill warns that a runtime's TTL is about to delete objects that finished before the
// runtime had it, and of how many.
var runtimeBackfill = Rule{
	Name:   "runtime-backfill",
	Fields: annotations(policy.AnnotationBackfill),
	Review: func(r *Request) []policy.Finding {
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
		return []policy.Finding{warning(policy.AnnotationPath(policy.AnnotationBackfill), "true",
			"lets the TTL delete "+what+" that finished before the runtime had it, at most 1000 a minute"+unknown)}
	},
}

// Backfills reports whether a request lets the TTL of a runtime reach what finished before: it sets
// backfill, or another TTL beside it.
func Backfills(r *Request) bool {
	fields := r.Facts.Profile.RuntimeTTLs
	if r.Facts.Profile.RuntimeOf == "" || r.Facts.Deleting || r.Facts.Annotations[policy.AnnotationBackfill] != "true" {
		return false
	}
	ttl := policy.RuntimeHash(r.Object, fields)
	return ttl != "" && (r.OldFacts == nil || r.OldFacts.Annotations[policy.AnnotationBackfill] != "true" || policy.RuntimeHash(r.Old, fields) != ttl)
}
