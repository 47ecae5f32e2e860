package resolution

import (
	"slices"
	"time"

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
	if _, ok := defaultSource(facts.Annotations, wellknown.AnnotationDeadlineSource); ok && filledDeadline(facts, scope) {
		out = out.WithoutDeadline()
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
	return without, hasAssigned(facts, ttlAssignments(without, new(Resolve(without, scope)), scope), count)
}

// filledDeadline reports whether admission would fill in exactly the deadline that the facts have,
// with its stamp.
func filledDeadline(facts *policy.Facts, scope *Scope) bool {
	without := facts.WithoutDeadline()
	return hasAssigned(facts, deadlineAssignments(without, new(Resolve(without, scope)), scope), 2)
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

// FillIn returns the values that admission writes into a new object, the TTL label included. An
// earlier call for the same object is undone first, so that a second call has the same result.
func FillIn(facts *policy.Facts, scope *Scope, now time.Time) ([]Assignment, Effective) {
	facts = Unfilled(facts, scope)
	effective := Resolve(facts, scope)
	assignments := Defaults(facts, &effective, scope)
	label, said := DefaultLabel(facts, scope, now)
	assignments = append(assignments, LabelAssignments(facts, label, said, false)...)
	return append(assignments, forgedLabelSource(facts, scope, now)...), effective
}

// NativeDeletion is the deletion of an object by its kind's own controller, which reads the native
// TTL. That controller ignores everything that keeps Curfew from a deletion: protection, dry-run,
// switches, missing permissions.
type NativeDeletion struct {
	// Setting is the native field. ByOutcome: another one applies after the other outcome, and this
	// is the longer one.
	Setting   *lifetime.Setting
	ByOutcome bool
	// Expiry is zero until the object has finished.
	Expiry time.Time
}

// NativeDeletionOf is nil where no native TTL applies, or where nothing follows from it.
func NativeDeletionOf(facts *policy.Facts) *NativeDeletion {
	if !facts.Profile.Finishable() || facts.StateError != nil {
		return nil
	}
	after := func(outcome lifetime.Outcome) *lifetime.Setting {
		own := facts.TTLs()
		of := level{set: lifetime.TTLSet{Native: own.Native, NativeSucceeded: own.NativeSucceeded, NativeFailed: own.NativeFailed}}
		if setting := of.Setting(facts, outcome); setting != nil && setting.Err == nil {
			return setting
		}
		return nil
	}
	if facts.Finished {
		setting := after(facts.Outcome)
		if setting == nil || facts.FinishTime.IsZero() {
			return nil
		}
		return &NativeDeletion{Setting: setting, Expiry: facts.FinishTime.Add(setting.TTL.After)}
	}
	longer, other := after(lifetime.Succeeded), after(lifetime.Failed)
	if longer == nil || other != nil && other.TTL.After > longer.TTL.After {
		longer, other = other, longer
	}
	if longer == nil {
		return nil
	}
	return &NativeDeletion{Setting: longer, ByOutcome: other == nil || other.TTL != longer.TTL}
}

// Left reports whether a TTL is left to Kubernetes: the author of a Job set the native field.
func (e *Effective) Left(facts *policy.Facts, value Value) bool {
	return e.LeaveNative && facts.Profile.Kind.GroupKind() == policy.JobProfile.Kind.GroupKind() &&
		value.Source.Level == lifetime.LevelObject && value.Path == policy.JobProfile.TTL.String()
}

// LeftToKubernetes reports whether Kubernetes alone deletes the object by its TTL, after each
// outcome.
func (e *Effective) LeftToKubernetes(facts *policy.Facts) bool {
	return e.Left(facts, e.Succeeded) && e.Left(facts, e.Failed)
}
