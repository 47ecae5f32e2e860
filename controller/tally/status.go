package tally

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/quote"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// tally is a PodTally and its known state.
type tally struct {
	name  string
	uid   types.UID
	match *match.Tally

	// version and status belong to the PodTally as it was last read or written, and ledger is the
	// exact part of that status.
	version string
	status  v1alpha1.PodTallyStatus
	ledger  ledger
	// pending is a write whose answer was lost. Nothing else is done until its outcome is known: a Pod
	// that it lists may be as good as counted.
	pending   *plan
	wrote     time.Time
	invalid   field.ErrorList // of the spec
	edited    string          // who else has written the status
	overtaken bool            // by another process

	// active are Pods with the finalizer that have not finished, conflicts the Pods that an older
	// tally holds.
	active, conflicts int64
	// work are Pods that may need something, the longest waiting first.
	work []types.UID
	// due is when it is worked on next, and notBefore when it may be after failures.
	due, notBefore time.Time
	failures       *loop.Backoff
}

// plan is what a tally needs next: first the status, if write is set, and after that the patches.
type plan struct {
	write  bool
	ledger ledger
	status v1alpha1.PodTallyStatus
	// taken are the Pods that this plan lists.
	taken []types.UID
	// adopts and releases are Pods that get or lose the finalizer without being counted.
	adopts, releases []*pod
}

const (
	// maxUncounted is how many UIDs a status lists at most.
	maxUncounted = 500
	// maxUncountedBytes bounds what they take in JSON, so that the whole status is under 20 kB.
	maxUncountedBytes = 18_900
)

// ledger is the part of a status that is exact whatever crashes (S7).
type ledger struct {
	succeeded, failed int64
	// uncounted are finished Pods. Only theirs are the finalizers that may be removed, and only
	// Pods that are through with that move into the counters.
	uncounted []entry
	bytes     int
}

type entry struct {
	uid     types.UID
	outcome outcome
}

// readLedger reads a status.
func readLedger(status *v1alpha1.PodTallyStatus) ledger {
	l := ledger{succeeded: status.Succeeded, failed: status.Failed}
	if listed := status.UncountedTerminatedPods; listed != nil {
		for _, uid := range listed.Succeeded {
			l.add(uid, succeeded)
		}
		for _, uid := range listed.Failed {
			l.add(uid, failed)
		}
	}
	return l
}

// write puts the ledger into a status.
func (l *ledger) write(status *v1alpha1.PodTallyStatus) {
	status.Succeeded, status.Failed, status.UncountedTerminatedPods = l.succeeded, l.failed, nil
	if len(l.uncounted) == 0 {
		return
	}
	listed := &v1alpha1.UncountedTerminatedPods{}
	for _, entry := range l.uncounted {
		if entry.outcome == succeeded {
			listed.Succeeded = append(listed.Succeeded, entry.uid)
		} else {
			listed.Failed = append(listed.Failed, entry.uid)
		}
	}
	status.UncountedTerminatedPods = listed
}

func (l *ledger) add(uid types.UID, how outcome) {
	l.uncounted = append(l.uncounted, entry{uid, how})
	l.bytes += size(uid)
}

// fits reports whether one more UID may be listed.
func (l *ledger) fits(uid types.UID) bool {
	return len(l.uncounted) < maxUncounted && l.bytes+size(uid) <= maxUncountedBytes
}

func size(uid types.UID) int { return len(uid) + len(`"",`) }

// settle is the ledger after the Pods that are through have moved into the counters.
func (l *ledger) settle(through func(types.UID) bool) ledger {
	out := ledger{succeeded: l.succeeded, failed: l.failed}
	for _, entry := range l.uncounted {
		switch {
		case !through(entry.uid):
			out.add(entry.uid, entry.outcome)
		case entry.outcome == succeeded:
			out.succeeded++
		default:
			out.failed++
		}
	}
	return out
}

// describe fills in what a status says beside the numbers.
func (t *tally) describe(status *v1alpha1.PodTallyStatus, now time.Time) {
	if status.StartTime == nil {
		status.StartTime = new(metav1.NewTime(now).Rfc3339Copy())
	}
	status.ObservedGeneration = t.match.Generation
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCounting, Message: "Pods are counted",
	}
	was := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if t.edited != "" || was != nil && was.Reason == v1alpha1.ReasonStatusEdited {
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonStatusEdited
		ready.Message = "the status was changed while Curfew was not running: the counts may be wrong"
	}
	if t.invalid != nil {
		ready = expression.Ready(t.match.Generation, t.invalid, nil)
	}
	conflicting := metav1.Condition{Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoConflict}
	conflicting.Message = "no Pod is counted by an older PodTally"
	if t.conflicts > 0 {
		conflicting.Status, conflicting.Reason = metav1.ConditionTrue, v1alpha1.ReasonOlderTally
		conflicting.Message = "some Pods that match are counted by an older PodTally"
	}
	set(status, t.match.Generation, now, ready, conflicting)
	if t.match.Requires != nil {
		set(status, t.match.Generation, now, *t.match.Requires)
	}
	meta.RemoveStatusCondition((*[]metav1.Condition)(&status.Conditions), v1alpha1.ConditionReleasing)
}

// heldBy is why a status says that its tally needs a newer Curfew; else empty.
func heldBy(status *v1alpha1.PodTallyStatus) string {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonNeedsNewerVersion {
		return ""
	}
	return quote.ShortenTo(ready.Message, 1000) // Events have shorter messages than conditions.
}

// set sets conditions of a status.
func set(status *v1alpha1.PodTallyStatus, generation int64, now time.Time, conditions ...metav1.Condition) {
	for _, condition := range conditions {
		condition.ObservedGeneration, condition.LastTransitionTime = generation, metav1.NewTime(now).Rfc3339Copy()
		meta.SetStatusCondition((*[]metav1.Condition)(&status.Conditions), condition)
	}
}

func sameStatus(a, b *v1alpha1.PodTallyStatus) bool { return equality.Semantic.DeepEqual(a, b) }
