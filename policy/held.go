package policy

import "slices"

// A policy in dry-run deletes nothing on its account: what its defaults stamped before is held as
// well. A stamp counts only if that policy matches and would give the object the same value again,
// so that a forged one gains nothing. If the policy cannot be evaluated, it may give that value:
// the object is held (S6).

// StampedBy reports whether a stamp of the object names a policy that meets the condition.
func (f *Facts) StampedBy(condition func(name string) bool) bool {
	label, _ := f.claimedLabel()
	return slices.ContainsFunc([]Source{
		ParseSource(f.Annotations[AnnotationTTLSource]), ParseSource(f.Annotations[AnnotationDeadlineSource]), label,
	}, func(source Source) bool { return source.Level == LevelPolicy && condition(source.Name) })
}

// WithoutDefaults are the fields that a new object had not yet when admission filled in what its
// stamps claim.
func WithoutDefaults(facts *Facts) []FieldPath {
	out := Stamped(facts)
	if facts.LabelPolicy() != "" {
		out = append(out, FieldPath{"metadata", "labels", LabelTTL}, FieldPath{"metadata", "annotations", AnnotationLabelSource})
	}
	return out
}

// holds reports whether a source is a policy in dry-run that gives a value again, as that asks in
// the scope of a new object. Other policies in dry-run decided nothing, or did when the value was
// stamped: either is enough to hold it (S6).
func (s *Scope) holds(source Source, givesAgain func(*Scope) bool) bool {
	if source.Level != LevelPolicy {
		return false
	}
	return slices.ContainsFunc([]*Scope{s, s.Filled}, func(scope *Scope) bool {
		if scope == nil || !slices.ContainsFunc(scope.Policies, func(of *PlatformPolicy) bool { return of.Name == source.Name && of.Mode == ModeDryRun }) {
			return false
		}
		return slices.ContainsFunc([]*Scope{scope.enforcing(source.Name), scope.asEnforced()}, func(creating *Scope) bool {
			creating.Creating = true
			return givesAgain(creating)
		})
	})
}

// held reports whether a policy in dry-run gave the object its own TTL, or deadline.
func (w *walk) held(source Source) bool {
	return w.scope.holds(source, func(creating *Scope) bool {
		if w.deadline {
			return Resolve(w.facts.withoutDeadline(), creating).Deadline.gives(source, w.facts.Deadline())
		}
		own, given := w.facts.TTLs(), Resolve(w.facts.withoutTTL(), creating)
		return given.Succeeded.gives(source, own.For(Succeeded)) && given.Failed.gives(source, own.For(Failed))
	})
}

// gives reports whether a default of a source has the value of a setting, or cannot be known.
func (v Value) gives(source Source, setting *Setting) bool {
	switch {
	case v.Source == source && v.Err != nil:
		return true
	case setting == nil:
		return !v.Set
	default:
		return v.Set && v.Source == source && setting.Err == nil && v.TTL == setting.TTL
	}
}

// holdsLabel reports whether the source of a TTL label is a policy in dry-run.
func (s *Scope) holdsLabel(source Source) bool {
	return s.holds(source, func(*Scope) bool { return true })
}

// Held is the obstacle that [Explanation.HeldBy] is to a trigger.
func (e *Explanation) Held(trigger Trigger) []Obstacle {
	source, ok := e.HeldBy(trigger)
	if !ok {
		return nil
	}
	return []Obstacle{{ObstacleDryRun, source.Phrase() + " is in mode DryRun: what its defaults make due is only reported", true}}
}

// HeldBy is the policy in dry-run whose default alone makes the object due for a trigger; ok is
// false where there is none.
func (e *Explanation) HeldBy(trigger Trigger) (of Source, ok bool) {
	var values []Value
	switch trigger {
	case TriggerTTL:
		values = []Value{e.Effective.Succeeded, e.Effective.Failed}
	case TriggerDeadline:
		values = []Value{e.Effective.Deadline}
	case TriggerLabel:
		source, _ := e.Scope.labelSource(e.Facts)
		return source, e.LabelKey == LabelTTL && e.Scope.holdsLabel(source)
	}
	at := slices.IndexFunc(values, func(value Value) bool { return value.DryRun })
	if at < 0 {
		return Source{}, false
	}
	return values[at].Source, true
}
