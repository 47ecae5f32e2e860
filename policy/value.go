package policy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Value is an effective TTL or deadline.
type Value struct {
	// Set is false where no level sets a value, or the value does not reach the object. The object is
	// then kept.
	Set bool
	// TTL is the value. A deadline of never means that the author wants none.
	TTL    TTL
	Source Source
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
func (v Value) Unreached() bool { return !v.Set && v.Source.Level == LevelRuntime }

// Effective are the values that apply to one object.
type Effective struct {
	Succeeded, Failed Value
	Deadline          Value
	// DryRun means that Curfew only reports when the object is due.
	DryRun bool
	// LeaveNative is copied from the scope.
	LeaveNative bool
	// Counter is copied from the scope.
	Counter *PodCounter
	// Propagation of a deletion, see [Scope.Propagation].
	Propagation    metav1.DeletionPropagation
	PropagationErr error
}

// TTL is the value for an outcome.
func (e *Effective) TTL(outcome Outcome) Value {
	if outcome == Failed {
		return e.Failed
	}
	return e.Succeeded
}

// setting returns the setting of the level for an outcome; nil if the level sets none.
func (l *level) setting(facts *Facts, outcome Outcome) *Setting {
	setting := l.set.For(outcome)
	if facts.Errored && outcome == Failed && setting == l.set.NativeFailed {
		return l.set.Native
	}
	return setting
}

// value turns a setting of the winner into the effective value.
func (w *walk) value(setting *Setting) Value {
	switch w.winner.source.Level {
	case LevelObject:
		return w.own(setting)
	case LevelRuntime:
		if !w.deadline {
			return w.fromRuntime(setting)
		}
		return w.defaulted(setting)
	case LevelJob, LevelTally:
		return w.counted(setting)
	case LevelNamespace, LevelPolicy:
		return w.defaulted(setting)
	default:
		return Value{}
	}
}

// fromRuntime is a runtime's TTL: never written into the object, and read again before a deletion.
func (w *walk) fromRuntime(setting *Setting) Value {
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
func (v Value) holding(setting *Setting) Value {
	v.Set, v.TTL, v.Path, v.Text, v.Err = true, setting.TTL, setting.Path, setting.Text, setting.Err
	return v
}

// own is a value in the object itself, which its author or a default put there.
func (w *walk) own(setting *Setting) Value {
	if setting == nil {
		if w.winner.final {
			return takenAway(w.facts, w.scope)
		}
		return Value{} // The object decides, for the other outcome.
	}
	bounds := w.scope.BoundsFor(w.facts, EnforcedBounds)
	within, stamp := bounds.TTL, AnnotationTTLSource
	if w.deadline {
		within, stamp = bounds.Deadline, AnnotationDeadlineSource
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
func stamped(facts *Facts, scope *Scope) bool {
	text, ok := facts.Annotations[AnnotationTTLSource]
	return ok && !scope.Creating && ParseSource(text).Level != LevelRuntime
}

// takenAway is the value of an object whose TTL was removed: none. Where a max-ttl applies,
// admission rejects the removal, and the controller keeps and reports an object that bypassed
// admission.
func takenAway(facts *Facts, scope *Scope) Value {
	limit := scope.BoundsFor(facts, EnforcedBounds).TTL.Max
	if limit == nil {
		return Value{}
	}
	err := fmt.Errorf("its TTL was removed while %s applies: set %s or less", limit.Bound(), limit.TTL)
	if limit.Err != nil {
		err = &UnreadableBoundError{Bound: limit}
	}
	return Value{Set: true, Source: Source{Level: LevelObject}, Err: err}
}

// atLeast raises a stamped default to the minimum. Later bounds never shorten it (S6), but the
// stamp beside a value that is too short may be forged by someone who bypassed admission.
func (v *Value) atLeast(within Range) {
	if v.Err != nil || v.TTL.Never {
		return
	}
	v.TTL, v.Err = within.AtLeast(v.TTL)
}

// defaultOf is the source of the default that the object carries, by its stamp. The stamp of
// another namespace means nothing.
func defaultOf(facts *Facts, scope *Scope, stamp string) (Source, bool) {
	if scope.Creating {
		return Source{}, false // Its author wrote the stamp.
	}
	source, ok := defaultSource(facts.Annotations, stamp)
	return source, ok && (source.Level != LevelNamespace || source.Name == facts.Namespace)
}

// defaulted is a default that the winner gives the object, moved into the bounds.
func (w *walk) defaulted(setting *Setting) Value {
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
	if w.facts.isCronJobsJob() && !value.TTL.Never {
		value.TTL.After = max(value.TTL.After, minCronJobTTL)
	}
	value.Err = bounds.CheckTTL(value.TTL)
	return value
}

// reach reports whether a default reaches the object. It is young while it is being created, or
// younger than the default; an older object needs backfill. For the TTL of a runtime, the finish
// counts and not the creation. Equal times count as older, since they are whole seconds (S6).
func (w *walk) reach(from *level) (young, reaches bool) {
	at := w.facts.Created
	if from.source.Level == LevelRuntime && !w.deadline {
		if at = w.facts.FinishTime; at.IsZero() {
			return true, true // It is yet to finish, or keeps the object because it is not known.
		}
	}
	young = w.scope.Creating || (!from.since.IsZero() && at.After(from.since))
	return young, young || from.backfill
}
