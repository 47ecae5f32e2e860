package policy

import (
	"strconv"
	"strings"
	"time"
)

// ReasonDeadlineExceeded is the reason of the condition with which Jobs, TrainJobs, Pods and Curfew
// fail an object for its deadline.
const ReasonDeadlineExceeded = "DeadlineExceeded"

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
	exceeded := !facts.Exceeded.IsZero()
	if facts.Finished && !exceeded {
		return keep("has finished") // Later changes of the deadline do not undo that.
	}
	value := effective.Deadline
	switch {
	case !value.Set:
		return keep("has no deadline")
	case value.Err != nil:
		return Verdict{Action: Keep, Reason: "its deadline cannot be used", Source: value.Source, Err: value.problem()}
	case value.TTL.Never:
		return keep("is to have no deadline")
	case facts.Suspended && !exceeded:
		return keep("is suspended")
	}
	if exceeded {
		at := facts.begun().Add(value.TTL.After)
		if at.Before(facts.Exceeded) {
			at = facts.Exceeded
		}
		return deadlineVerdict(at.Add(grace), TriggerDeadlineCheck, effective, now)
	}
	if facts.Started.IsZero() {
		return keep("has not started")
	}
	if !facts.NativeDeadline.Set {
		grace = 0
	}
	return deadlineVerdict(facts.Started.Add(value.TTL.After).Add(grace), TriggerDeadline, effective, now)
}

// begun is when the object started, at the earliest: the status of a suspended object does not say.
func (f *Facts) begun() time.Time {
	if f.Started.IsZero() {
		return f.Created
	}
	return f.Started
}

func deadlineVerdict(at time.Time, trigger Trigger, effective *Effective, now time.Time) Verdict {
	value := effective.Deadline
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

// SuspensionRecord is the value of [AnnotationSuspendedAt]: when Curfew suspended the object, and
// the generation that the object's spec had after that.
func SuspensionRecord(at time.Time, generation int64) string {
	return at.UTC().Format(time.RFC3339) + "/" + strconv.FormatInt(generation, 10)
}

// suspendedAt is when Curfew suspended an object of a generation; zero where it did not, or where
// the spec was changed since, as by someone who resumed the object and suspended it again.
// Anyone who can update the object can write the record. They can give it a deadline, too.
func suspendedAt(record string, generation int64) time.Time {
	text, of, _ := strings.Cut(record, "/")
	at, err := ParseTime(text)
	if err != nil || of != strconv.FormatInt(generation, 10) {
		return time.Time{}
	}
	return at
}
