package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// ReasonDeadlineExceeded is the reason of the condition with which Jobs, TrainJobs, Pods and Curfew
// fail an object for its deadline.
const ReasonDeadlineExceeded = "DeadlineExceeded"

// Begun is when the object started, at the earliest: the status of a suspended object does not say.
func (f *Facts) Begun() time.Time {
	if f.Started.IsZero() {
		return f.Created
	}
	return f.Started
}

// ExceededAt is when an object was failed for its deadline, by the condition that says so; zero
// where none does.
func ExceededAt(object map[string]any) time.Time {
	status, _ := object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["reason"] != ReasonDeadlineExceeded || condition["status"] != "True" {
			continue
		}
		text, _ := condition["lastTransitionTime"].(string)
		if t, err := lifetime.ParseTime(text); err == nil {
			return t
		}
	}
	return time.Time{}
}

// SuspendedAt is when Curfew suspended an object of a generation; zero where it did not, or where
// the spec was changed since, as by someone who resumed the object and suspended it again.
// Anyone who can update the object can write the record. They can give it a deadline, too.
func SuspendedAt(record string, generation int64) time.Time {
	text, rest, _ := strings.Cut(record, "/")
	t, err := lifetime.ParseTime(text)
	if err != nil || rest != strconv.FormatInt(generation, 10) {
		return time.Time{}
	}
	return t
}

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

var actions = map[Action]string{Keep: "keep", Wait: "wait", Delete: "delete", RecordFinish: "record-finish", Stop: "stop"}

// String names the action for logs.
func (a Action) String() string { return cmp.Or(actions[a], "unknown") }

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
	Source  lifetime.Source
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

func Kept(reason string) Verdict { return Verdict{Action: Keep, Reason: reason} }

// Untouchable is the verdict on an object that no trigger applies to; ok is false for all others.
func (f *Facts) Untouchable(noMultiKueue bool) (verdict Verdict, ok bool) {
	switch {
	case f.Deleting:
		return Kept("is being deleted already"), true
	case f.Protected():
		return Kept(fmt.Sprintf("is protected by annotation %s", wellknown.AnnotationProtect)), true
	case f.CurfewsOwn():
		return Kept("is part of Curfew"), true
	case f.MultiKueueCopy() && !noMultiKueue:
		return KeptCopy(), true
	}
	return Verdict{}, false
}

// Due is the verdict with an expiry: wait until then, and act from then on.
func (v Verdict) Due(expiry, now time.Time, act Action) Verdict {
	v.Action, v.Expiry = Wait, expiry
	if !expiry.After(now) {
		v.Action = act
	}
	return v
}

// Propagated is a verdict with the propagation that the policies set; an error keeps the object.
func (v Verdict) Propagated(propagation metav1.DeletionPropagation, err error) Verdict {
	if err != nil {
		return Verdict{Action: Keep, Reason: "what becomes of its dependents is not known", Source: v.Source, Err: err}
	}
	v.Propagation = propagation
	return v
}

// Uncounted reports whether the Job controller has yet to account for the Pod (KEP-2307).
func (f *Facts) Uncounted() bool {
	return slices.Contains(f.Finalizers, wellknown.FinalizerJobTracking)
}

// AlwaysRestarts reports whether a Pod has restartPolicy Always. Absent and unknown values mean the
// same (S6).
func (f *Facts) AlwaysRestarts() bool {
	return f.RestartPolicy != string(corev1.RestartPolicyOnFailure) && f.RestartPolicy != string(corev1.RestartPolicyNever)
}
