package cleanup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// current is a policy as it was just read.
type current struct {
	object *unstructured.Unstructured
	policy *cleanup.Policy
	ledger *ledger
	now    time.Time
	// turn to work at it.
	turn *turn
}

// step does what a policy needs now, and returns after how long it needs something again: 0 if that
// is not known because of an error.
func (c *Controller) step(ctx context.Context, key string, turn *turn) (time.Duration, error) {
	object, err := c.read(ctx, key)
	if err != nil {
		return 0, err
	}
	now, err := c.options.ServerTime(ctx)
	if err != nil {
		return 0, err
	}
	began := c.options.Clock.Now()
	p, errs, status := cleanup.Read(c.compiler, object)
	store := newStore(c.options.Clock, c.options.Objects, p, object.GetResourceVersion(), status)
	store.reportBytes = c.options.ReportBytes
	cur := &current{object: object, policy: p, now: now, turn: turn, ledger: &ledger{store: store}}
	limits, err := c.limit(p)
	if err != nil {
		return 0, err
	}
	errs = append(errs, limits...)
	ran, next, err := c.advance(ctx, cur, errs)
	again := func() time.Duration {
		if next.IsZero() {
			return permissionsEvery
		}
		return min(permissionsEvery, max(next.Sub(now)-c.options.Clock.Since(began), time.Second))
	}
	if err == nil && ran {
		return time.Second, nil // Then the next run is looked for.
	}
	if err == nil && len(errs) == 0 {
		err = c.review(ctx, cur, again())
	}
	return again(), err
}

// advance brings the last run to its end and starts the one that is due. It reports whether it has
// started one, and when the next is due.
func (c *Controller) advance(ctx context.Context, cur *current, errs field.ErrorList) (ran bool, next time.Time, err error) {
	usable, due := len(errs) == 0 && !cur.policy.Spec.Suspend, time.Time{}
	if usable {
		due, next = cur.due()
	}
	if err := cur.observe(ctx, errs, next); err != nil {
		return false, next, err
	}
	if err := c.finish(ctx, cur, usable && due.IsZero()); err != nil || due.IsZero() {
		return false, next, err
	}
	return true, next, c.start(ctx, cur, due)
}

// start starts a run that is due.
func (c *Controller) start(ctx context.Context, cur *current, due time.Time) error {
	r, err := c.newRun(cur, &v1alpha1.CleanupRun{
		ID: runID(due, cur.policy.UID), Phase: v1alpha1.RunRunning, Generation: cur.policy.Generation,
		ScheduledTime: metav1.NewTime(due), StartTime: metav1.NewTime(cur.now), DryRun: cur.policy.Spec.DryRun || c.options.DryRun,
	})
	if err != nil {
		return err
	}
	return r.start(ctx)
}

// runID is unique to a policy and a scheduled time.
func runID(due time.Time, policy types.UID) string {
	return fmt.Sprintf("%s-%.8s", due.UTC().Format(runIDTime), policy)
}

// runIDTime begins the id of a run, so that the ids of a policy sort by time.
const runIDTime = "20060102-1504"

func timeOfRun(id string) (time.Time, error) {
	return time.Parse(runIDTime, id[:min(len(id), len(runIDTime))])
}

// limit checks what admission checks as well: policies get past it.
func (c *Controller) limit(p *cleanup.Policy) (errs field.ErrorList, err error) {
	if err := p.CheckInterval(c.options.MinInterval); err != nil {
		errs = append(errs, err)
	}
	if p.Namespace == "" {
		return errs, nil
	}
	if err := c.namespaced.Known(); err != nil {
		return nil, err
	}
	own, _ := c.namespaced.Get(p.Namespace + "/" + p.Name)
	if older := c.ages.older(p.Namespace, spec{uid: p.UID, created: own.created}); older >= c.options.MaxPolicies {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "namespace"), fmt.Sprintf("namespace %q has %d older CleanupPolicies, and %d may run: see --cleanup-max-policies", p.Namespace, older, c.options.MaxPolicies)))
	}
	return errs, nil
}

// due returns the scheduled time of a run that should start now, and when the next one is due.
func (cur *current) due() (due, next time.Time) {
	status := cur.ledger.status()
	after := cur.since(status)
	if cur.changed(status) {
		if since := cur.changedAt(status); since.After(after) {
			after = since
		}
	}
	if last := status.LastScheduleTime; last != nil && last.After(after) && !cur.ahead(last.Time) {
		after = last.Time
	}
	if after.After(cur.now) {
		after = cur.now
	}
	due, _ = cur.policy.Schedule.Latest(after, cur.now)
	if !due.IsZero() && cur.tooLate(due) {
		due = time.Time{}
	}
	return due, cur.policy.Schedule.Next(cur.now)
}

// since is the time from which runs are due: when the policy was created, or last changed.
func (cur *current) since(status *v1alpha1.CleanupPolicyStatus) time.Time {
	since := cur.object.GetCreationTimestamp().Time
	if at := status.ScheduleSinceTime; at != nil && (at.After(since) || cur.ahead(since)) {
		since = at.Time
	}
	return since
}

// ahead reports whether a time that was written down is in the future: the clock was wrong then. It
// must not stop the policy until the time has come. Two API servers may differ by a little.
func (cur *current) ahead(at time.Time) bool { return at.After(cur.now.Add(maxClockSkew)) }

// changed reports whether the policy was edited since its status was written.
func (cur *current) changed(status *v1alpha1.CleanupPolicyStatus) bool {
	return status.ObservedGeneration != 0 && status.ObservedGeneration != cur.policy.Generation
}

// changedAt is the time from which an edited policy is due. A new schedule makes up for nothing.
// But an edit does not cancel the run that the status announces if the new schedule has it, too: it
// is not known which came first. Only Curfew writes that status; forged, it starts a run of the
// policy's own schedule.
func (cur *current) changedAt(status *v1alpha1.CleanupPolicyStatus) time.Time {
	if announced := status.NextScheduleTime; announced != nil && !announced.After(cur.now) {
		if before := announced.Add(-time.Second); cur.policy.Schedule.Next(before).Equal(announced.Time) {
			return before
		}
	}
	return cur.now
}

// tooLate reports whether a run that was due at a time may not begin, or go on, any more.
func (cur *current) tooLate(due time.Time) bool {
	deadline := cur.policy.Spec.StartingDeadlineSeconds
	return deadline != nil && int64(cur.now.Sub(due)/time.Second) > *deadline
}

// observe writes what can be said of a policy without a run.
func (cur *current) observe(ctx context.Context, errs field.ErrorList, next time.Time) error {
	before := cur.ledger.status()
	after := before.DeepCopy()
	after.SpecHash, after.NextScheduleTime = cur.policy.Hash, nil
	if changed := cur.changed(before); changed || cur.ahead(cur.since(before)) {
		since := metav1.NewTime(cur.now)
		if changed && len(errs) == 0 {
			since.Time = cur.changedAt(before)
		}
		after.ScheduleSinceTime = &since
	}
	after.ObservedGeneration = cur.policy.Generation
	if !next.IsZero() {
		after.NextScheduleTime = new(metav1.NewTime(next))
	}
	ready := expression.Ready(cur.policy.Generation, errs, nil)
	ready.LastTransitionTime = metav1.NewTime(cur.now)
	meta.SetStatusCondition((*[]metav1.Condition)(&after.Conditions), ready)
	if equalStatus(before, after) {
		return nil
	}
	return cur.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) { *s = *after })
}
