package policy

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Action is what the controller is to do with an object.
type Action uint8

// The actions.
const (
	// Keep: nothing is due, now or at any instant that is known.
	Keep Action = iota
	// Wait: the object goes at Verdict.Expiry.
	Wait
	// Delete: the object is due.
	Delete
	// RecordFinish: the Pod is finished and does not say since when. Write down now as its finish time and judge again; only then
	// does its TTL begin.
	RecordFinish
	// Stop: the object has passed its deadline and is to be failed and stopped, or was failed and is to be seen stopped.
	Stop
)

// String names the action for logs.
func (a Action) String() string {
	switch a {
	case Keep:
		return "keep"
	case Wait:
		return "wait"
	case Delete:
		return "delete"
	case RecordFinish:
		return "record-finish"
	case Stop:
		return "stop"
	default:
		return "unknown"
	}
}

// Trigger is why Curfew deletes or stops.
type Trigger string

// The triggers.
const (
	TriggerTTL      Trigger = "ttl"
	TriggerLabel    Trigger = "label"
	TriggerCleanup  Trigger = "cleanup"
	TriggerDeadline Trigger = "deadline"
	// TriggerDeadlineCheck: it was failed for its deadline, and what it ran has to be gone.
	TriggerDeadlineCheck Trigger = "deadline-check"
)

// Verdict is the answer to: does this object go, when, and why?
type Verdict struct {
	Action  Action
	Expiry  time.Time
	Trigger Trigger
	Source  Source
	// Reason is why the object is kept, for people.
	Reason string
	// Err is what has to be reported: an unreadable or refused value that keeps the object (S6).
	Err error
	// Live asks for a fresh read before the deletion; Backfill for the capped rate; DryRun for a report instead of it.
	Live, Backfill, DryRun bool
}

func keep(reason string) Verdict { return Verdict{Action: Keep, Reason: reason} }

// Judge says what is to become of an object at the instant now, for the TTL after finished. It is the one place that
// decides a deletion, and holds for exactly the resourceVersion in the facts (S1).
func Judge(facts *Facts, effective *Effective, now time.Time) Verdict {
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
	case !facts.Finished:
		return keep("is not finished") // S4
	}
	value := effective.TTL(facts.Outcome)
	switch {
	case !value.Set:
		return keep("has no TTL")
	case value.Err != nil:
		return Verdict{Action: Keep, Reason: "its TTL cannot be used", Source: value.Source, Err: value.problem()}
	case value.TTL.Never:
		return Verdict{Action: Keep, Reason: "its TTL is never", Source: value.Source}
	case facts.IsPod() && facts.AlwaysRestarts():
		return Verdict{Action: Keep, Reason: "restartPolicy is Always", Source: value.Source,
			Err: fmt.Errorf("%s: a Pod with restartPolicy Always has no TTL after finished", value.Path)}
	case facts.rerunBy() != "":
		return facts.keepFor(facts.rerunBy(), value.Path, value.Source)
	case facts.Uncounted():
		return keep("its Job has not accounted for it yet")
	case facts.FinishTime.IsZero() && !facts.IsPod():
		return Verdict{Action: Keep, Reason: "does not say when it finished", Source: value.Source, Err: errNoFinishTime}
	case facts.FinishTime.IsZero():
		return Verdict{Action: RecordFinish, Trigger: TriggerTTL, Source: value.Source,
			Reason: "does not say when it finished", DryRun: effective.DryRun}
	}
	verdict := Verdict{
		Action: Wait, Expiry: facts.FinishTime.Add(value.TTL.After), Trigger: TriggerTTL, Source: value.Source,
		Live: value.Live, Backfill: value.Backfill, DryRun: effective.DryRun,
	}
	// A finish time in the future puts the expiry there too, so that it defers and never hastens.
	if !verdict.Expiry.After(now) {
		verdict.Action = Delete
	}
	return verdict
}

// errNoFinishTime keeps a finished object of a kind whose status names a finish time, where that is missing. A Pod may lose its
// node and with it the only witness of its end, so that Curfew writes down when it saw the Pod finished.
var errNoFinishTime = errors.New("its status has no usable finish time (missing, zero or the epoch): set it there, or delete the object")

// problem is the value's error with its field, where there is one.
func (v Value) problem() error {
	if v.Path == "" {
		return v.Err
	}
	return fmt.Errorf("%s: %w", v.Path, v.Err)
}

// Uncounted reports whether the Job controller has yet to account for the Pod (KEP-2307).
func (f *Facts) Uncounted() bool {
	for _, finalizer := range f.Finalizers {
		if finalizer == FinalizerJobTracking {
			return true
		}
	}
	return false
}

// AlwaysRestarts reports whether a Pod has restartPolicy Always; absent means Always, and so does what is none of the three
// (S6).
func (f *Facts) AlwaysRestarts() bool {
	return f.RestartPolicy != string(corev1.RestartPolicyOnFailure) && f.RestartPolicy != string(corev1.RestartPolicyNever)
}
