package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Action is the step that the controller takes with an object.
type Action uint8

// The actions.
const (
	// Keep: nothing is due, now or at any instant that is known.
	Keep Action = iota
	// Wait: the object is due at Verdict.Expiry.
	Wait
	// Delete: the object is due.
	Delete
	// RecordFinish: the Pod is finished and does not say since when. Record now as its finish time,
	// at which its TTL begins.
	RecordFinish
	// Stop: the object exceeded its deadline. It must be failed and stopped or, if it was failed
	// already, must be seen to have stopped.
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
	// TriggerTally counts Pods and deletes nothing itself.
	TriggerTally Trigger = "tally"
	// TriggerDeadlineCheck: the object was failed for its deadline, and everything it ran must be
	// gone.
	TriggerDeadlineCheck Trigger = "deadline-check"
)

// Verdict says whether, when and why Curfew acts on an object.
type Verdict struct {
	Action  Action
	Expiry  time.Time
	Trigger Trigger
	Source  Source
	// Reason is why the object is kept, for people.
	Reason string
	// Err must be reported: an unreadable or rejected value that keeps the object (S6).
	Err error
	// Live asks for a live read before the deletion, Backfill for the capped rate, DryRun for a
	// report instead.
	Live, Backfill, DryRun bool
	// Propagation of the deletion, where a policy sets it; else "".
	Propagation metav1.DeletionPropagation
}

func keep(reason string) Verdict { return Verdict{Action: Keep, Reason: reason} }

// untouchable is the verdict on an object that no trigger applies to; ok is false for all others.
func (f *Facts) untouchable() (verdict Verdict, ok bool) {
	switch {
	case f.Deleting:
		return keep("is being deleted already"), true
	case f.Protected():
		return keep(fmt.Sprintf("is protected by annotation %s", AnnotationProtect)), true
	case f.CurfewsOwn():
		return keep("is part of Curfew"), true
	case f.MultiKueueCopy():
		return keptCopy(), true
	}
	return Verdict{}, false
}

// due is the verdict with an expiry: wait until then, and act from then on.
func (v Verdict) due(expiry, now time.Time, act Action) Verdict {
	v.Action, v.Expiry = Wait, expiry
	if !expiry.After(now) {
		v.Action = act
	}
	return v
}

// propagated is a verdict with the propagation that the policies set; an error keeps the object.
func (v Verdict) propagated(propagation metav1.DeletionPropagation, err error) Verdict {
	if err != nil {
		return Verdict{Action: Keep, Reason: "what becomes of its dependents is not known", Source: v.Source, Err: err}
	}
	v.Propagation = propagation
	return v
}

// Judge decides what happens to an object at the instant now by its TTL after finished. The verdict
// is valid for exactly the resourceVersion in the facts (S1).
func Judge(facts *Facts, effective *Effective, now time.Time) Verdict {
	if verdict, ok := facts.untouchable(); ok {
		return verdict
	}
	switch {
	case facts.StateError != nil:
		return Verdict{Action: Keep, Reason: "its state cannot be read", Err: facts.StateError}
	case !facts.Finished:
		return keep("is not finished") // S4
	}
	value := effective.TTL(facts.Outcome)
	switch {
	case value.Unreached():
		return keep("finished before its runtime had this TTL")
	case !value.Set:
		return keep("has no TTL")
	case effective.left(facts, value):
		return keep("its " + value.Path + " is left to Kubernetes")
	case value.Err != nil:
		return Verdict{Action: Keep, Reason: "its TTL cannot be used", Source: value.Source, Err: value.problem()}
	case value.TTL.Never:
		return Verdict{Action: Keep, Reason: "its TTL is never", Source: value.Source}
	case facts.IsPod() && facts.AlwaysRestarts():
		return Verdict{Action: Keep, Reason: "restartPolicy is Always", Source: value.Source,
			Err: fmt.Errorf("%s: a Pod with restartPolicy Always has no TTL after finished", value.Path)}
	case facts.RerunBy() != "":
		return facts.keepFor(facts.RerunBy(), value.Path, value.Source)
	case facts.Uncounted():
		return keep("the Job controller has not accounted for it")
	case facts.HeldByTally():
		return keep("its PodTally has not counted it")
	case effective.Counter.keeps(facts.Outcome) != "":
		return Verdict{Action: Keep, Reason: effective.Counter.keeps(facts.Outcome), Source: value.Source, Err: effective.Counter.Err}
	case facts.FinishTime.IsZero() && !facts.IsPod():
		return Verdict{Action: Keep, Reason: "does not say when it finished", Source: value.Source, Err: errNoFinishTime}
	case facts.FinishTime.IsZero():
		return Verdict{Action: RecordFinish, Trigger: TriggerTTL, Source: value.Source,
			Reason: "does not say when it finished", DryRun: effective.DryRun || value.DryRun}
	}
	// A finish time in the future puts the expiry there too, so that it defers and never hastens.
	return Verdict{Trigger: TriggerTTL, Source: value.Source, Live: value.Live || facts.isJobsPod(), Backfill: value.Backfill, DryRun: effective.DryRun || value.DryRun}.
		due(facts.FinishTime.Add(value.TTL.After), now, Delete).propagated(effective.Propagation, effective.PropagationErr)
}

// errNoFinishTime keeps a finished object whose status lacks the finish time. For a Pod, which can
// lose its node and with it that time, Curfew records when it saw the Pod finished.
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
	return slices.Contains(f.Finalizers, FinalizerJobTracking)
}

// AlwaysRestarts reports whether a Pod has restartPolicy Always. Absent and unknown values mean the
// same (S6).
func (f *Facts) AlwaysRestarts() bool {
	return f.RestartPolicy != string(corev1.RestartPolicyOnFailure) && f.RestartPolicy != string(corev1.RestartPolicyNever)
}
