package resolution

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// Value is an effective TTL or deadline.
type Value struct {
	// Set is false where no level sets a value, or the value does not reach the object. The object is
	// then kept.
	Set bool
	// TTL is the value. A deadline of never means that the author wants none.
	TTL    lifetime.TTL
	Source lifetime.Source
	// Path and Text are the field and its text.
	Path, Text string
	// Default means that the value comes from a level other than the object and is not in the
	// object yet.
	Default bool
	// Live means that the value can change without the object changing, so that it is read again
	// before a deletion.
	Live bool
	// Backfill means that the default reaches an object older than itself, at a capped rate.
	Backfill bool
	// DryRun means that a policy in dry-run gives or gave the value: Curfew only reports due objects.
	DryRun bool
	// Err says why the value of the level that decides cannot be used: keep, and report (S6).
	Err error
}

// Unreached reports whether a runtime has a TTL that does not reach the object, which finished
// before the runtime had it.
func (v Value) Unreached() bool { return !v.Set && v.Source.Level == lifetime.LevelRuntime }

// Effective are the values that apply to one object.
type Effective struct {
	Succeeded, Failed Value
	Deadline          Value
	// DryRun means that Curfew only reports when the object is due.
	DryRun bool
	// LeaveNative and NoMultiKueue are copied from the scope.
	LeaveNative, NoMultiKueue bool
	// Counter is copied from the scope.
	Counter *PodCounter
	// Propagation of a deletion, see [Scope.Propagation].
	Propagation    metav1.DeletionPropagation
	PropagationErr error
}

// TTL is the value for an outcome.
func (e *Effective) TTL(outcome lifetime.Outcome) Value {
	if outcome == lifetime.Failed {
		return e.Failed
	}
	return e.Succeeded
}

// Setting returns the setting of the level for an outcome; nil if the level sets none.
func (l *level) Setting(facts *policy.Facts, outcome lifetime.Outcome) *lifetime.Setting {
	setting := l.set.For(outcome)
	if facts.Errored && outcome == lifetime.Failed && setting == l.set.NativeFailed {
		return l.set.Native
	}
	return setting
}

// value turns a setting of the winner into the effective value.
func (w *walk) value(setting *lifetime.Setting) Value {
	switch w.winner.source.Level {
	case lifetime.LevelObject:
		return w.own(setting)
	case lifetime.LevelRuntime:
		if !w.deadline {
			return w.fromRuntime(setting)
		}
		return w.defaulted(setting)
	case lifetime.LevelJob, lifetime.LevelTally:
		return w.counted(setting)
	case lifetime.LevelNamespace, lifetime.LevelPolicy:
		return w.defaulted(setting)
	default:
		return Value{}
	}
}

// fromRuntime is a runtime's TTL: never written into the object, and read again before a deletion.
func (w *walk) fromRuntime(setting *lifetime.Setting) Value {
	runtime := w.scope.Runtime
	value := Value{Set: true, Source: w.winner.source, Live: true}
	if err := runtime.Unusable(); err != nil {
		value.Path, value.Err = runtime.Path, err
		return value
	}
	if setting == nil {
		return Value{}
	}
	if value = value.holding(setting); value.Err != nil {
		return value
	}
	if runtime.Namespaced {
		value.Err = setting.Echo(w.scope.BoundsFor(w.facts, EnforcedBounds).CheckTTL(value.TTL))
	}
	young, reaches := w.reach(&w.winner)
	if value.Err == nil && !reaches {
		return Value{Source: value.Source}
	}
	value.Backfill = !young
	return value
}

// holding is the value with a setting in it.
func (v Value) holding(setting *lifetime.Setting) Value {
	v.Set, v.TTL, v.Path, v.Text, v.Err = true, setting.TTL, setting.Path, setting.Text, setting.Err
	return v
}

// own is a value in the object itself, which its author or a default put there.
func (w *walk) own(setting *lifetime.Setting) Value {
	if setting == nil {
		if w.winner.final {
			return takenAway(w.facts, w.scope)
		}
		return Value{} // The object decides, for the other outcome.
	}
	bounds := w.scope.BoundsFor(w.facts, EnforcedBounds)
	within, stamp := bounds.TTL, wellknown.AnnotationTTLSource
	if w.deadline {
		within, stamp = bounds.Deadline, wellknown.AnnotationDeadlineSource
	}
	value := Value{Source: w.winner.source}.holding(setting)
	source, isDefault := defaultOf(w.facts, w.scope, stamp)
	switch {
	case isDefault:
		value.Source, value.DryRun = source, w.held(source)
		value.atLeast(within)
	case value.Err != nil:
	case w.deadline:
		value.Err = setting.Echo(bounds.CheckDeadline(value.TTL))
	default:
		value.Err = setting.Echo(bounds.CheckTTL(value.TTL))
	}
	return value
}

// stamped reports whether the object had a TTL of its own or was given a default. The stamp of a
// runtime is only informational: its TTL is never written into the object.
func stamped(facts *policy.Facts, scope *Scope) bool {
	text, ok := facts.Annotations[wellknown.AnnotationTTLSource]
	return ok && !scope.Creating && lifetime.ParseSource(text).Level != lifetime.LevelRuntime
}

// takenAway is the value of an object whose TTL was removed past admission, which would have filled
// in a default again: none. Where a max-ttl applies, the controller reports that it keeps the object.
func takenAway(facts *policy.Facts, scope *Scope) Value {
	limit := scope.BoundsFor(facts, EnforcedBounds).TTL.Max
	if limit == nil {
		return Value{}
	}
	err := fmt.Errorf("its TTL was removed while %s applies: set %s or less", limit.Bound(), limit.TTL)
	if limit.Err != nil {
		err = &lifetime.UnreadableBoundError{Bound: limit}
	}
	return Value{Set: true, Source: lifetime.Source{Level: lifetime.LevelObject}, Err: err}
}

// atLeast raises a stamped default to the minimum. Later bounds never shorten it (S6), but the
// stamp beside a value that is too short may be forged by someone who bypassed admission.
func (v *Value) atLeast(within lifetime.Range) {
	if v.Err != nil || v.TTL.Never {
		return
	}
	v.TTL, v.Err = within.AtLeast(v.TTL)
}

// defaultOf is the source of the default that the object carries, by its stamp. The stamp of
// another namespace means nothing.
func defaultOf(facts *policy.Facts, scope *Scope, stamp string) (lifetime.Source, bool) {
	if scope.Creating {
		return lifetime.Source{}, false // Its author wrote the stamp.
	}
	source, ok := defaultSource(facts.Annotations, stamp)
	return source, ok && (source.Level != lifetime.LevelNamespace || source.Name == facts.Namespace)
}

// defaulted is a default that the winner gives the object, moved into the bounds.
func (w *walk) defaulted(setting *lifetime.Setting) Value {
	value := Value{Source: w.winner.source}
	young, reaches := w.reach(&w.winner)
	if setting == nil || !reaches || w.winner.dryRun && setting.Err != nil {
		return value
	}
	value.Default, value.Live, value.Backfill, value.DryRun = true, true, !young, w.winner.dryRun
	if value = value.holding(setting); value.Err != nil {
		return value
	}
	scope := w.scope
	if value.DryRun {
		scope = scope.asEnforced()
	}
	bounds := scope.BoundsFor(w.facts, AllBounds)
	if w.deadline {
		value.TTL = bounds.Deadline.Clamp(value.TTL)
		value.Err = bounds.CheckDeadline(value.TTL)
		return value
	}
	value.TTL = bounds.TTL.Clamp(value.TTL)
	if w.facts.IsCronJobsJob() && !value.TTL.Never {
		value.TTL.After = max(value.TTL.After, minCronJobTTL)
	}
	value.Err = bounds.CheckTTL(value.TTL)
	return value
}

// reach reports whether a default reaches the object. It is young while it is being created, or
// younger than the default; an older object needs backfill. For the TTL of a runtime, the finish
// counts and not the creation. Equal times count as older, since they are whole seconds (S6).
func (w *walk) reach(from *level) (young, reaches bool) {
	t := w.facts.Created
	if from.source.Level == lifetime.LevelRuntime && !w.deadline {
		if t = w.facts.FinishTime; t.IsZero() {
			return true, true // It is yet to finish, or keeps the object because it is not known.
		}
	}
	young = w.scope.Creating || (!from.since.IsZero() && t.After(from.since))
	return young, young || from.backfill
}

// WithoutDefaults are the fields that a new object had not yet when admission filled in what its
// stamps claim.
func WithoutDefaults(facts *policy.Facts) []fieldpath.FieldPath {
	out := stampedFields(facts)
	if _, ok := facts.Annotations[wellknown.AnnotationLabelSource]; ok {
		out = append(out, fieldpath.FieldPath{"metadata", "annotations", wellknown.AnnotationLabelSource})
	}
	if facts.LabelPolicy() != "" {
		out = append(out, fieldpath.FieldPath{"metadata", "labels", wellknown.LabelTTL})
	}
	return out
}

// holds reports whether a source is a policy in dry-run that gives a value again, as that asks in
// the scope of a new object. Other policies in dry-run decided nothing, or did when the value was
// stamped: either is enough to hold it (S6).
func (s *Scope) holds(source lifetime.Source, givesAgain func(*Scope) bool) bool {
	return source.Level == lifetime.LevelPolicy && slices.ContainsFunc([]*Scope{s, s.Filled}, func(scope *Scope) bool {
		tried := func(p *PlatformPolicy) bool { return p.Name == source.Name && p.Mode == ModeDryRun }
		if scope == nil || !slices.ContainsFunc(scope.Policies, tried) {
			return false
		}
		return slices.ContainsFunc([]*Scope{scope.enforcing(source.Name), scope.asEnforced()}, func(creating *Scope) bool {
			creating.Creating = true
			return givesAgain(creating)
		})
	})
}

// held reports whether a policy in dry-run gave the object its own TTL, or deadline.
func (w *walk) held(source lifetime.Source) bool {
	return w.scope.holds(source, func(creating *Scope) bool {
		if w.deadline {
			return Resolve(w.facts.WithoutDeadline(), creating).Deadline.gives(source, w.facts.Deadline())
		}
		own, given := w.facts.TTLs(), Resolve(w.facts.WithoutTTL(), creating)
		return given.Succeeded.gives(source, own.For(lifetime.Succeeded)) && given.Failed.gives(source, own.For(lifetime.Failed))
	})
}

// gives reports whether a default of a source has the value of a setting, or cannot be known.
func (v Value) gives(source lifetime.Source, setting *lifetime.Setting) bool {
	switch {
	case v.Source == source && v.Err != nil:
		return true
	case setting == nil:
		return !v.Set
	default:
		return v.Set && v.Source == source && setting.Err == nil && v.TTL == setting.TTL
	}
}

// HoldsLabel reports whether the source of a TTL label is a policy in dry-run.
func (s *Scope) HoldsLabel(source lifetime.Source) bool {
	return s.holds(source, func(*Scope) bool { return true })
}

// Problem is the value's error with its field, where there is one.
func (v Value) Problem() error {
	if v.Path == "" {
		return v.Err
	}
	return fmt.Errorf("%s: %w", v.Path, v.Err)
}
