package resolution

import (
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// Unfilled removes from the facts the values that an earlier admission call for the same CREATE
// filled in. The API server calls again if another webhook changed the object in between, and the
// answer must be the same. A value counts as Curfew's only if the scope would fill in exactly that
// value again; any other stamp is the author's.
func Unfilled(facts *policy.Facts, scope *Scope) *policy.Facts {
	out := facts
	if _, ok := defaultSource(facts.Annotations, wellknown.AnnotationTTLSource); ok {
		if without, ok := withoutFilledTTL(facts, scope); ok {
			out = without
		}
	}
	if _, ok := defaultSource(facts.Annotations, wellknown.AnnotationDeadlineSource); ok {
		if filledDeadline(facts, scope) {
			out = out.WithoutDeadline()
		}
	}
	return out
}

// withoutFilledTTL returns the facts without the TTL that admission filled in, according to their
// stamp; false if admission would not fill in exactly that TTL.
func withoutFilledTTL(facts *policy.Facts, scope *Scope) (*policy.Facts, bool) {
	without, count := facts.Without(wellknown.AnnotationTTLSource), 1
	if _, ok := defaultSource(facts.Annotations, wellknown.AnnotationTTLSource); ok {
		without, count = facts.WithoutTTL(), len(facts.TTLs().Settings())+1
	}
	effective := Resolve(without, scope)
	return without, hasAssigned(facts, ttlAssignments(without, &effective, scope), count)
}

// filledDeadline reports whether admission would fill in exactly the deadline that the facts have,
// with its stamp.
func filledDeadline(facts *policy.Facts, scope *Scope) bool {
	without := facts.WithoutDeadline()
	effective := Resolve(without, scope)
	return hasAssigned(facts, deadlineAssignments(without, &effective, scope), 2)
}

// Attested returns the facts of a new object without the stamps that admission would not write in
// any of the scopes, and the keys of these stamps. A stamp claims that the value is a default; if
// it is not, the value is the author's. Only a CREATE can be checked like this: later the defaults,
// and their inputs, may differ.
func Attested(facts *policy.Facts, scopes ...*Scope) (attested *policy.Facts, forged []string) {
	attested = facts
	for _, stamp := range []struct {
		key  string
		true func(*Scope) bool
	}{
		{wellknown.AnnotationTTLSource, func(scope *Scope) bool { _, ok := withoutFilledTTL(facts, scope); return ok }},
		{wellknown.AnnotationDeadlineSource, func(scope *Scope) bool { return filledDeadline(facts, scope) }},
	} {
		text, ok := facts.Annotations[stamp.key]
		if !ok || text == string(lifetime.LevelObject) {
			continue
		}
		if !slices.ContainsFunc(scopes, func(scope *Scope) bool {
			if scope == nil || scope.Mode() == ModeDryRun {
				return false
			}
			creating := *scope
			creating.Creating = true
			return stamp.true(&creating)
		}) {
			attested, forged = attested.Without(stamp.key), append(forged, stamp.key)
		}
	}
	return attested, forged
}

// Outdated are the stamps whose value an update changes: it is no longer the default that the stamp
// names. A value that is removed keeps its stamp, which then means that the object has none.
func Outdated(old, updated *policy.Facts) []string {
	var out []string
	before, after := old.TTLs(), updated.TTLs()
	if _, ok := defaultSource(old.Annotations, wellknown.AnnotationTTLSource); ok && !after.Empty() {
		for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
			if !sameTTL(before.For(outcome), after.For(outcome)) {
				out = append(out, wellknown.AnnotationTTLSource)
				break
			}
		}
	}
	_, ok := defaultSource(old.Annotations, wellknown.AnnotationDeadlineSource)
	if deadline := updated.Deadline(); ok && deadline != nil && !sameTTL(old.Deadline(), deadline) {
		out = append(out, wellknown.AnnotationDeadlineSource)
	}
	return out
}

func sameTTL(a, b *lifetime.Setting) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Err == nil && b.Err == nil && a.TTL == b.TTL || a.Path == b.Path && a.Text == b.Text
}

// Restamp changes these stamps to name the object itself.
func Restamp(old, updated *policy.Facts) []Assignment {
	var out []Assignment
	for _, key := range Outdated(old, updated) {
		out = append(out, stamp(updated, key, string(lifetime.LevelObject))...)
	}
	return out
}

// Stamped are the fields of an object that its stamps claim were filled in, including the stamps.
func Stamped(facts *policy.Facts) []fieldpath.FieldPath {
	var out []fieldpath.FieldPath
	add := func(native fieldpath.FieldPath, keys ...string) {
		if native != nil {
			out = append(out, native)
		}
		for _, key := range keys {
			out = append(out, fieldpath.FieldPath{"metadata", "annotations", key})
		}
	}
	if _, ok := facts.Annotations[wellknown.AnnotationTTLSource]; ok {
		add(facts.Profile.TTL, append([]string{wellknown.AnnotationTTLSource}, wellknown.TTLAnnotations...)...)
	}
	if _, ok := facts.Annotations[wellknown.AnnotationDeadlineSource]; ok {
		add(facts.Profile.Deadline, wellknown.AnnotationDeadlineSource, wellknown.AnnotationActiveDeadline)
	}
	return out
}

// hasAssigned reports whether there are exactly count assignments and the facts have all of them.
func hasAssigned(facts *policy.Facts, assignments []Assignment, count int) bool {
	if len(assignments) != count {
		return false
	}
	for _, assignment := range assignments {
		native, isNative := facts.Native(assignment.Path)
		if seconds, ok := assignment.Value.(int64); ok && (!native.Set || native.Err != nil || native.Seconds != seconds) {
			return false
		}
		if isNative {
			if text, ok := assignment.Value.(string); ok && native.Text != text {
				return false
			}
			continue
		}
		if text, ok := facts.Annotations[assignment.Path[len(assignment.Path)-1]]; !ok || text != assignment.Value {
			return false
		}
	}
	return true
}
