package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	// errGone: the tally was deleted, or created again under its name.
	errGone = errors.New("the PodTally is gone")
	// errOvertaken: another Curfew process has written the status. The known state of the Pods is
	// older than that, so they are listed again.
	errOvertaken = errors.New("PodTallies were changed, or another process counts them")
)

// writePlan writes the status of a plan. When its answer is lost, the plan stays pending, and the
// same status is written again until its outcome is known.
func (c *Controller) writePlan(ctx context.Context, s *space, t *tally, p *plan) error {
	if t.pending == nil {
		now, err := c.options.ServerTime(ctx)
		if err != nil {
			s.abandon(t, p)
			return fmt.Errorf("the API server's time: %w", err)
		}
		t.describe(&p.status, now)
	}
	began := c.options.Clock.Now()
	version, err := c.put(ctx, s, t, p)
	c.metrics.step("status", began, c.options.Clock, err)
	switch {
	case err == nil:
		c.metrics.counted.WithLabelValues("succeeded").Add(float64(p.ledger.succeeded - t.ledger.succeeded))
		c.metrics.counted.WithLabelValues("failed").Add(float64(p.ledger.failed - t.ledger.failed))
		s.confirm(t, p, version, c.options.Clock.Now())
	case errors.Is(err, errGone), errors.Is(err, errOvertaken):
		s.abandon(t, p)
	case refused(err):
		s.abandon(t, p)
		err = fmt.Errorf("writing the status: %w", err)
	default:
		s.hold(t, p)
		err = fmt.Errorf("writing the status: %w", err)
	}
	return err
}

// put writes a status over the one that is known.
func (c *Controller) put(ctx context.Context, s *space, t *tally, p *plan) (string, error) {
	for {
		version, err := c.options.Cluster.WriteStatus(ctx, s.namespace, t.name, t.uid, t.version, &p.status)
		switch {
		case err == nil:
			return version, nil
		case apierrors.IsNotFound(err):
			return "", errGone
		case !apierrors.IsConflict(err):
			return "", err
		}
		live, err := c.options.Cluster.Tally(ctx, s.namespace, t.name)
		switch {
		case apierrors.IsNotFound(err) || err == nil && live.UID != t.uid:
			return "", errGone
		case err != nil:
			return "", err
		case sameStatus(&live.Status, &p.status): // The answer to an earlier attempt was lost.
			return live.ResourceVersion, nil
		case live.Status.Transitions > t.status.Transitions:
			return "", errOvertaken
		case sameStatus(&live.Status, &t.status): // Something else of the object has changed.
		case live.Editor == "":
			return "", errOvertaken
		default:
			// What this process knows is what the status has to say: no one else counts.
			c.edited(s.namespace, t, live.Editor, "Curfew has restored it")
		}
		t.version = live.ResourceVersion
	}
}

// tallies lists the PodTallies of a namespace. A missing CRD is not an error: their Pods have to be
// released. A 404 alone does not say that it is missing: a proxy, or an API server that does not
// know the CRD yet, answers the same.
func (c *Controller) tallies(ctx context.Context, namespace string) ([]*StoredTally, error) {
	out, err := c.options.Cluster.Tallies(ctx, namespace)
	if apierrors.IsNotFound(err) {
		defined, unsure := c.options.Cluster.Defined(ctx)
		switch {
		case unsure != nil:
			return nil, fmt.Errorf("listing PodTallies: %w, and whether they are installed is not known: %w", err, unsure)
		case !defined:
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing PodTallies: %w", err)
	}
	return out, nil
}

// takeOver raises status.transitions of tallies that this process begins to count. Any other that
// still counts them fails at its next write. Otherwise two of them could each list a Pod in the
// status of another tally, if one has not heard yet that it moved (S7).
func (c *Controller) takeOver(ctx context.Context, namespace string, fresh []*tally) error {
	failures := &failures{}
	var writes []func(context.Context) bool
	for _, t := range fresh {
		writes = append(writes, func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, maxRequest)
			defer cancel()
			t.status.Transitions++
			began := c.options.Clock.Now()
			version, err := c.options.Cluster.WriteStatus(ctx, namespace, t.name, t.uid, t.version, &t.status)
			c.metrics.step("status", began, c.options.Clock, err)
			switch {
			case err == nil:
				t.version = version
			case !apierrors.IsNotFound(err): // One that is gone is never written.
				failures.add(fmt.Errorf("taking over PodTally %s: %w", klog.KRef(namespace, t.name), err))
			}
			return overloaded(err)
		})
	}
	c.send(ctx, writes)
	if err := ctx.Err(); err != nil {
		return err // Some may not have been written.
	}
	return failures.error()
}

// refused reports whether an error says that a write has not happened and never will.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTimeout(err)
}

// describe fills in what a status says beside the numbers.
func (t *tally) describe(status *v1alpha1.PodTallyStatus, now time.Time) {
	if status.StartTime == nil {
		status.StartTime = new(metav1.NewTime(now).Rfc3339Copy())
	}
	status.ObservedGeneration = t.generation
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCounting, Message: "Pods are counted",
	}
	if was := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); t.edited != "" || was != nil && was.Reason == v1alpha1.ReasonStatusEdited {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonStatusEdited, "the status was changed while Curfew was not running: the counts may be wrong"
	}
	if t.invalid != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidField, t.invalid.Error()
	}
	conflicting := metav1.Condition{
		Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoConflict, Message: "no Pod is counted by an older PodTally",
	}
	if t.conflicts > 0 {
		conflicting.Status, conflicting.Reason = metav1.ConditionTrue, v1alpha1.ReasonOlderTally
		conflicting.Message = "some Pods that match are counted by an older PodTally"
	}
	for _, condition := range []metav1.Condition{ready, conflicting} {
		condition.ObservedGeneration, condition.LastTransitionTime = t.generation, metav1.NewTime(now).Rfc3339Copy()
		meta.SetStatusCondition((*[]metav1.Condition)(&status.Conditions), condition)
	}
	meta.RemoveStatusCondition((*[]metav1.Condition)(&status.Conditions), v1alpha1.ConditionReleasing)
}

func sameStatus(a, b *v1alpha1.PodTallyStatus) bool { return equality.Semantic.DeepEqual(a, b) }

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
	for _, one := range l.uncounted {
		if one.outcome == succeeded {
			listed.Succeeded = append(listed.Succeeded, one.uid)
		} else {
			listed.Failed = append(listed.Failed, one.uid)
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
	for _, one := range l.uncounted {
		switch {
		case !through(one.uid):
			out.add(one.uid, one.outcome)
		case one.outcome == succeeded:
			out.succeeded++
		default:
			out.failed++
		}
	}
	return out
}
