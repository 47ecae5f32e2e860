package resolution

import (
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
)

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
		found := level{set: lifetime.TTLSet{Native: own.Native, NativeSucceeded: own.NativeSucceeded, NativeFailed: own.NativeFailed}}
		if setting := found.Setting(facts, outcome); setting != nil && setting.Err == nil {
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
