package world

import (
	"time"

	"curfew.dev/curfew/policy"
)

// nativeGrace is how long after the native TTL an object may still be there before that shows that
// the kind's own controller does not act: it is switched off, or refused.
const nativeGrace = 5 * time.Minute

// NativeDeletion is the deletion by the kind's own controller, as far as that may act; nil where it
// does not.
func NativeDeletion(facts *policy.Facts, now time.Time) *policy.NativeDeletion {
	native := policy.NativeDeletionOf(facts)
	if native == nil || facts.Deleting || !native.Expiry.IsZero() && native.Expiry.Add(nativeGrace).Before(now) {
		return nil
	}
	return native
}

// nativeEntry is an entry by the native TTL.
func nativeEntry(e *policy.Explanation, native *policy.NativeDeletion) Entry {
	source := policy.Source{Level: policy.LevelObject}
	for _, value := range []policy.Value{e.Effective.Succeeded, e.Effective.Failed} {
		if value.Set && value.Path == native.Setting.Path {
			source = sourceOf(e, value)
		}
	}
	return Entry{
		Trigger: policy.TriggerTTL, Source: source, Value: native.Setting.TTL, ByOutcome: native.ByOutcome,
		Expiry: native.Expiry, Native: native,
	}
}

// overtakenBy reports whether the kind's own controller deletes the object before Curfew does, or
// although something keeps Curfew from it.
func (e *Entry) overtakenBy(native *policy.NativeDeletion) bool {
	switch {
	case e.Trigger.Stops() || e.Native != nil:
		return false
	case e.Blocker() != nil:
		return true
	case native.Expiry.IsZero():
		return e.Expiry.IsZero() && (e.Value.Never || e.Value.After > native.Setting.TTL.After)
	default:
		return e.Expiry.IsZero() || native.Expiry.Before(e.Expiry)
	}
}

// released marks the obstacles of an entry by the native TTL: they stop Curfew alone.
func (e *Entry) released() {
	for i := range e.Obstacles {
		if e.Native != nil {
			e.Obstacles[i].Stops = false
		}
	}
}

// DeletedBy names the controller that deletes the object in Curfew's place; "" for none.
func (e *Entry) DeletedBy() string {
	if e.Native == nil {
		return ""
	}
	return e.Kind.Profile.NativeDeleter()
}
