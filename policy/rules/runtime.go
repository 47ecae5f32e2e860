package rules

import (
	"fmt"
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// overruled reports whether the object's own TTL is ignored, because its runtime decides.
func overruled(s *Subject) bool { return !s.IsTemplate() && runtimeDecides(s.Facts, s.Scope) }

// actsOnItself reports whether a TTL that the subject states can delete it. A kind that never
// finishes has none, and where a runtime decides, only the kind's own controller acts on a native
// field.
func actsOnItself(s *Subject) bool {
	return s.Profile.Finishable() && (!overruled(s) || len(s.TTLs().Natives()) > 0)
}

// runtimeDecides reports whether a runtime that exists decides the TTL of an object.
func runtimeDecides(facts *policy.Facts, scope *resolution.Scope) bool {
	step := runtimeStep(facts, scope)
	return step != nil && !scope.Runtime.Missing
}

// runtimeStep is the step of a runtime that decides the TTL of an object; nil where none does.
func runtimeStep(facts *policy.Facts, scope *resolution.Scope) *resolution.Step {
	if scope == nil || scope.Runtime == nil {
		return nil
	}
	_, trace := resolution.ResolveTraced(facts, scope)
	if step := resolution.Decider(trace.TTL); step != nil && step.Source.Level == lifetime.LevelRuntime {
		return step
	}
	return nil
}

// byRuntime announces when the runtime of a new object deletes it: nothing on the object says so.
func byRuntime(r *Request) string {
	if r.Facts.Protected() || r.Scope.Mode() == resolution.ModeDryRun {
		return ""
	}
	var when []string
	for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
		if value := r.Effective.TTL(outcome); value.Source.Level == lifetime.LevelRuntime && value.Set && value.Err == nil && !value.TTL.Never {
			when = append(when, fmt.Sprintf("%s after it has %s", value.TTL, outcome))
		}
	}
	switch {
	case len(when) == 0:
		return ""
	case len(when) == 2 && r.Effective.Succeeded.TTL == r.Effective.Failed.TTL:
		when = []string{r.Effective.Failed.TTL.String() + " after it has finished"}
	}
	return fmt.Sprintf("runtime %q deletes this %s %s", r.Scope.Runtime.Name, r.Facts.Profile.Kind.Kind, strings.Join(when, ", and "))
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
