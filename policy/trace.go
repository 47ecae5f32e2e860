package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Trace lists the levels that [ResolveTraced] considered, in order of precedence.
type Trace struct {
	// TTL is empty for kinds that never finish.
	TTL []Step
	// Deadline is empty for kinds that have none.
	Deadline []Step
}

// Step is one level of precedence.
type Step struct {
	Source Source
	// Settings are empty where the level sets nothing.
	Settings []*Setting
	// Decides is set on the level that wins, even if it decides that there is no value.
	Decides bool
	// Changed means that the object's stamp names a source that does not give this value, although its
	// defaults are older than the object. The value counts as the author's.
	Changed bool
	// Why says why the level decides, is not asked or does not reach the object, where the settings
	// do not show it.
	Why string
}

// Decider is the step that decides; nil where none does.
func Decider(steps []Step) *Step {
	for i := range steps {
		if steps[i].Decides {
			return &steps[i]
		}
	}
	return nil
}

// step records a level. It runs only if the caller wants the trace.
func (w *walk) step(from *level, decides bool) Step {
	step := Step{Source: from.source, Settings: from.set.Settings(), Decides: decides}
	runtime := w.scope.Runtime
	switch fromRuntime := from.source.Level == LevelRuntime; {
	case fromRuntime && w.deadline && runtime.Unusable() != nil:
		step.Why = "the runtime does not exist or cannot be read"
	case fromRuntime && decides && runtime.Missing:
		step.Settings, step.Why = nil, "the runtime does not exist or cannot be read, so the object is kept"
	case decides && from.source.Level == LevelObject:
		step.Why, step.Changed = w.whyOwn(from)
	case decides:
		step.Why = w.whyReached(from)
	case from.final || len(step.Settings) > 0:
		step.Why = "not used: " + cmp.Or(from.skipped, w.closed)
	}
	return step
}

// whyOwn says how the object's own value came about, and whether it has been changed since.
func (w *walk) whyOwn(from *level) (why string, changed bool) {
	if from.final {
		return "the value was removed after creation, which means none", false
	}
	stamp := AnnotationTTLSource
	if w.deadline {
		stamp = AnnotationDeadlineSource
	}
	source, stamped := defaultSource(w.facts.Annotations, stamp)
	switch {
	case !stamped || w.scope.Creating:
		return "", false
	case w.deadline || w.givesAgain(source):
		return "defaulted at creation from " + source.Phrase(), false
	case w.stoodAtCreation(source):
		return "its source annotation names " + source.Phrase() + ", which gives another value: it counts as set on the object", true
	default:
		return "defaulted at creation from " + source.Phrase() + ", or changed since", false
	}
}

// stoodAtCreation reports whether the defaults of a source are older than the object.
func (w *walk) stoodAtCreation(source Source) bool {
	older := func(since time.Time) bool { return !since.IsZero() && w.facts.Created.After(since) }
	switch namespace := w.scope.Namespace; source.Level {
	case LevelNamespace:
		return namespace != nil && older(namespace.Since)
	case LevelPolicy:
		return slices.ContainsFunc(w.scope.Policies, func(of *PlatformPolicy) bool { return of.Name == source.Name && older(of.Since) })
	default:
		return false
	}
}

// givesAgain reports whether a source would give the object now the TTL that it carries. If not,
// one of the two was changed since the creation. A source that gives nothing now proves nothing.
func (w *walk) givesAgain(source Source) bool {
	creating := *w.scope
	creating.Creating = true
	again, own := walk{facts: w.facts, scope: &creating}, w.facts.TTLs()
	again.defaultTTL()
	for _, outcome := range []Outcome{Succeeded, Failed} {
		gives, has := again.value(again.winner.setting(w.facts, outcome)), own.For(outcome)
		switch {
		case gives.Source != source || gives.Err != nil:
			return true
		case gives.Set != (has != nil) || has != nil && gives.TTL != has.TTL:
			return false
		}
	}
	return true
}

// whyReached says why a default reaches an object that does not carry it, or does not.
func (w *walk) whyReached(from *level) string {
	young, reaches := w.reach(from)
	since, finished := from.since.UTC().Format(time.RFC3339), from.source.Level == LevelRuntime && !w.deadline
	switch {
	case young:
		return ""
	case reaches && finished:
		return "the object finished before the runtime got this TTL, and backfill includes it"
	case reaches:
		return "the object is older than the default, and backfill includes it"
	case finished && from.since.IsZero():
		return "the runtime has no " + AnnotationDefaultSince + " yet: objects that have finished need " + AnnotationBackfill + " on the runtime"
	case finished:
		return fmt.Sprintf("the object finished before the runtime got this TTL at %s: it needs %s on the runtime", since, AnnotationBackfill)
	case from.since.IsZero():
		return "when the default was set is not recorded, and backfill is off: it applies to objects created from now on"
	default:
		return fmt.Sprintf("the object is older than the default, which was set at %s, and backfill is off", since)
	}
}

// finish adds the resulting values to the step that decides.
func (w *walk) finish(e *Effective) []Step {
	step, of := Decider(w.steps), []Value{e.Succeeded, e.Failed}
	switch {
	case step == nil:
		return w.steps
	case w.deadline:
		of = []Value{e.Deadline}
	case step.Why == "" && w.facts.Finished && !e.TTL(w.facts.Outcome).Set:
		step.Why = "it sets no TTL for objects that " + w.facts.Outcome.String()
	}
	clamped := ""
	for _, setting := range step.Settings {
		for _, value := range of {
			if to := "clamped to " + value.TTL.String(); value.Set && value.Err == nil && value.Path == setting.Path && value.TTL != setting.TTL && to != clamped {
				step.Why, clamped = strings.TrimPrefix(step.Why+"; "+to, "; "), to
			}
		}
	}
	return w.steps
}
