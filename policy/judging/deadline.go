package judging

import (
	"cmp"
	"strconv"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// JudgeDeadline decides by the deadline what happens to an object at the instant now. The clock
// starts when the object was last resumed, else where its kind says, else at its creation;
// suspension stops and resets it. grace is how long Curfew waits for the kind's own controller. It
// is 0 where nothing shows that this controller acts, and for a deadline that is not in the native
// field, the only one that it knows.
//
// An object that was failed or suspended for its deadline may have left something running. Its
// verdict is Stop as well, with TriggerDeadlineCheck, from the instant at which that happened. Its
// status is not trusted with that: the object must have a deadline, and the deadline must have
// passed.
func JudgeDeadline(facts *policy.Facts, effective *resolution.Effective, grace time.Duration, now time.Time) policy.Verdict {
	if verdict, ok := facts.Untouchable(effective.NoMultiKueue); ok {
		return verdict
	}
	switch {
	case facts.StateError != nil:
		return policy.Verdict{Action: policy.Keep, Reason: "its state cannot be read", Err: facts.StateError}
	}
	if manager := facts.ForeignManager(effective.NoMultiKueue); manager != "" {
		return policy.Kept("is managed by " + manager)
	}
	if facts.DeadlineByCurfew {
		grace = 0
	}
	exceeded := !facts.Exceeded.IsZero()
	if facts.Finished && !exceeded {
		return policy.Kept("has finished") // Later changes of the deadline do not undo that.
	}
	value := effective.Deadline
	switch {
	case !value.Set:
		return policy.Kept("has no deadline")
	case value.Err != nil:
		return policy.Verdict{Action: policy.Keep, Reason: "its deadline cannot be used", Source: value.Source, Err: value.Problem()}
	case value.TTL.Never:
		return policy.Kept("is to have no deadline")
	case facts.Suspended && !exceeded:
		return policy.Kept("is suspended")
	}
	if exceeded {
		t := facts.Begun().Add(value.TTL.After)
		if t.Before(facts.Exceeded) {
			t = facts.Exceeded
		}
		return deadlineVerdict(t.Add(grace), policy.TriggerDeadlineCheck, effective, now)
	}
	if facts.Started.IsZero() {
		return policy.Kept("has not started")
	}
	if !facts.NativeDeadline.Set {
		grace = 0
	}
	return deadlineVerdict(facts.Started.Add(value.TTL.After).Add(grace), policy.TriggerDeadline, effective, now)
}

func deadlineVerdict(t time.Time, trigger policy.Trigger, effective *resolution.Effective, now time.Time) policy.Verdict {
	value := effective.Deadline
	value.Source.Level = cmp.Or(value.Source.Level, lifetime.LevelObject)
	return policy.Verdict{
		Trigger: trigger, Source: value.Source, Live: value.Live, Backfill: value.Backfill, DryRun: effective.DryRun || value.DryRun,
	}.Due(t, now, policy.Stop)
}

// SuspensionRecord is the value of [wellknown.AnnotationSuspendedAt]: when Curfew suspended the
// object, and the generation that the object's spec had after that.
func SuspensionRecord(t time.Time, generation int64) string {
	return t.UTC().Format(time.RFC3339) + "/" + strconv.FormatInt(generation, 10)
}
