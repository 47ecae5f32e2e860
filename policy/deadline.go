package policy

import (
	"fmt"
	"time"
)

// ReasonDeadlineExceeded is the reason of the condition that says that an object was failed for its deadline, as Jobs, TrainJobs
// and Pods write it, and Curfew where it fails an object itself.
const ReasonDeadlineExceeded = "DeadlineExceeded"

// JudgeDeadline says what is to become of an object at the instant now, for its deadline. The clock starts when the object was last
// resumed, else where its kind says, else at its creation; suspension stops and resets it. grace is how much later Curfew acts
// where the kind's own controller enforces the deadline, 0 where Curfew does. That controller knows only the kind's own field: a deadline that is not
// in there is not left to it.
//
// An object that was failed for its deadline is not done with: whoever marked it may have left something running. Its verdict is
// Stop as well, with TriggerDeadlineCheck, from the instant of the mark.
func JudgeDeadline(facts *Facts, effective *Effective, grace time.Duration, now time.Time) Verdict {
	switch {
	case facts.Deleting:
		return keep("is being deleted already")
	case facts.Protected():
		return keep(fmt.Sprintf("is protected by annotation %s", AnnotationProtect))
	case facts.CurfewsOwn():
		return keep("is part of Curfew")
	case facts.MultiKueueCopy():
		return keptCopy()
	case facts.StateError != nil:
		return Verdict{Action: Keep, Reason: "its state cannot be read", Err: facts.StateError}
	}
	if manager := facts.ForeignManager(); manager != "" {
		return keep("is managed by " + manager)
	}
	if facts.Finished {
		if facts.Exceeded.IsZero() {
			return keep("has finished") // A verdict stands, whatever the deadline says afterwards.
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
	verdict := Verdict{
		Action: Wait, Expiry: at, Trigger: trigger, Source: effective.Deadline.Source,
		Live: effective.Deadline.Live, Backfill: effective.Deadline.Backfill, DryRun: effective.DryRun,
	}
	if verdict.Source.Level == "" {
		verdict.Source.Level = LevelObject
	}
	if !at.After(now) {
		verdict.Action = Stop
	}
	return verdict
}

// exceededAt is when an object was failed for its deadline: the time of the condition that says so. Zero where none does.
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
