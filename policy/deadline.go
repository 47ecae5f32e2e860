package policy

import "time"

// ReasonDeadlineExceeded is the reason of the condition with which Jobs, TrainJobs, Pods and Curfew
// fail an object for its deadline.
const ReasonDeadlineExceeded = "DeadlineExceeded"

// JudgeDeadline decides by the deadline what happens to an object at the instant now. The clock
// starts when the object was last resumed, else where its kind says, else at its creation;
// suspension stops and resets it. grace is how long Curfew waits for the kind's own controller. It
// is 0 where nothing shows that this controller acts, and for a deadline that is not in the native
// field, the only one that it knows.
//
// An object that was failed for its deadline may have left something running. Its verdict is Stop
// as well, with TriggerDeadlineCheck, from the instant at which it was failed.
func JudgeDeadline(facts *Facts, effective *Effective, grace time.Duration, now time.Time) Verdict {
	if verdict, ok := facts.untouchable(); ok {
		return verdict
	}
	switch {
	case facts.StateError != nil:
		return Verdict{Action: Keep, Reason: "its state cannot be read", Err: facts.StateError}
	}
	if manager := facts.ForeignManager(); manager != "" {
		return keep("is managed by " + manager)
	}
	if facts.DeadlineByCurfew {
		grace = 0
	}
	if facts.Finished {
		if facts.Exceeded.IsZero() {
			return keep("has finished") // Later changes of the deadline do not undo that.
		}
		return deadlineVerdict(facts.Exceeded.Add(grace), TriggerDeadlineCheck, effective, now)
	}
	value := effective.Deadline
	switch {
	case !value.Set:
		return keep("has no deadline")
	case value.Err != nil:
		return Verdict{Action: Keep, Reason: "its deadline cannot be used", Source: value.Source, Err: value.problem()}
	case value.TTL.Never:
		return keep("is to have no deadline")
	case facts.Suspended:
		return keep("is suspended")
	}
	if facts.Started.IsZero() {
		return keep("has not started")
	}
	if !facts.NativeDeadline.Set {
		grace = 0
	}
	return deadlineVerdict(facts.Started.Add(value.TTL.After).Add(grace), TriggerDeadline, effective, now)
}

func deadlineVerdict(at time.Time, trigger Trigger, effective *Effective, now time.Time) Verdict {
	value := effective.Deadline
	if value.DryRun && trigger == TriggerDeadlineCheck {
		value = Value{} // The policy is in dry-run: another deadline failed the object.
	}
	if value.Source.Level == "" {
		value.Source.Level = LevelObject
	}
	return Verdict{
		Trigger: trigger, Source: value.Source, Live: value.Live, Backfill: value.Backfill, DryRun: effective.DryRun || value.DryRun,
	}.due(at, now, Stop)
}

// exceededAt is when an object was failed for its deadline, by the condition that says so; zero
// where none does.
func exceededAt(object map[string]any) time.Time {
	status, _ := object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["reason"] != ReasonDeadlineExceeded || condition["status"] != "True" {
			continue
		}
		text, _ := condition["lastTransitionTime"].(string)
		if at, err := ParseTime(text); err == nil {
			return at
		}
	}
	return time.Time{}
}
