package policy

import "time"

// NativeDeletion is the deletion of an object by its kind's own controller, which reads the native
// TTL. That controller ignores everything that keeps Curfew from a deletion: protection, dry-run,
// switches, missing permissions.
type NativeDeletion struct {
	// Setting is the native field. ByOutcome: another one applies after the other outcome, and this
	// is the longer one.
	Setting   *Setting
	ByOutcome bool
	// Expiry is zero until the object has finished.
	Expiry time.Time
}

// NativeDeletionOf is nil where no native TTL applies, or where nothing follows from it.
func NativeDeletionOf(facts *Facts) *NativeDeletion {
	if !facts.Profile.Finishable() || facts.StateError != nil {
		return nil
	}
	after := func(outcome Outcome) *Setting {
		own := facts.TTLs()
		of := level{set: TTLSet{Native: own.Native, NativeSucceeded: own.NativeSucceeded, NativeFailed: own.NativeFailed}}
		if setting := of.setting(facts, outcome); setting != nil && setting.Err == nil {
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
	longer, other := after(Succeeded), after(Failed)
	if longer == nil || other != nil && other.TTL.After > longer.TTL.After {
		longer, other = other, longer
	}
	if longer == nil {
		return nil
	}
	return &NativeDeletion{Setting: longer, ByOutcome: other == nil || other.TTL != longer.TTL}
}

// NativeDeleter names the controller that deletes objects of the kind by their native TTL.
func (p *Profile) NativeDeleter() string {
	if p.Kind.GroupKind() == JobProfile.Kind.GroupKind() {
		return "Kubernetes' TTL-after-finished controller"
	}
	return "the " + p.Kind.Kind + "'s own controller"
}

// left reports whether a TTL is left to Kubernetes: the author of a Job set the native field.
func (e *Effective) left(facts *Facts, value Value) bool {
	return e.LeaveNative && facts.Profile.Kind.GroupKind() == JobProfile.Kind.GroupKind() &&
		value.Source.Level == LevelObject && value.Path == JobProfile.TTL.String()
}

// LeftToKubernetes reports whether Kubernetes alone deletes the object by its TTL, after each
// outcome.
func (e *Effective) LeftToKubernetes(facts *Facts) bool {
	return e.left(facts, e.Succeeded) && e.left(facts, e.Failed)
}
