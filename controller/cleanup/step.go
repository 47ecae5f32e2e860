package cleanup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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
	cur := &current{
		object: object, policy: p, now: now, turn: turn,
		ledger: &ledger{store: newStore(c.options.Objects, p, object.GetResourceVersion(), status)},
	}
	limits, err := c.limit(p)
	if err != nil {
		return 0, err
	}
	errs = append(errs, limits...)
	usable := len(errs) == 0 && !p.Spec.Suspend
	due, next := time.Time{}, time.Time{}
	if usable {
		due, next = cur.due()
	}
	again := func() time.Duration {
		if next.IsZero() {
			return permissionsEvery
		}
		return min(permissionsEvery, max(next.Sub(now)-c.options.Clock.Since(began), time.Second))
	}
	if err := cur.observe(ctx, errs, next); err != nil {
		return again(), err
	}
	if err := c.finish(ctx, cur, usable && due.IsZero()); err != nil {
		return again(), err
	}
	if !due.IsZero() {
		if err := c.start(ctx, cur, due); err != nil {
			return again(), err
		}
		return time.Second, nil // Then the next run is looked for.
	}
	if len(errs) == 0 {
		err = c.review(ctx, cur, again())
	}
	return again(), err
}

// finish brings a run to its end that has begun and has not ended: the process was killed, or
// something failed. It goes on only while the policy is what it was and no newer run is due.
func (c *Controller) finish(ctx context.Context, cur *current, mayGoOn bool) error {
	status := cur.ledger.status()
	if status.LastRun == nil || status.LastRun.Phase != v1alpha1.RunRunning && len(status.UncountedDeletions) == 0 {
		return nil
	}
	r, err := c.newRun(cur, status.LastRun)
	if err != nil {
		return err
	}
	why := "the policy was changed or suspended, or its next run was due, before the run was complete"
	if mayGoOn && status.LastRun.Generation == cur.policy.Generation && status.LastRun.Phase == v1alpha1.RunRunning {
		if paused(status) || !cur.tooLate(status.LastRun.ScheduledTime.Time) {
			return r.resume(ctx)
		}
		why = "the run was interrupted until its startingDeadlineSeconds had passed"
	}
	if err := r.settle(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return r.end(ctx, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, why)
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
	return fmt.Sprintf("%s-%.8s", due.UTC().Format("20060102-1504"), policy)
}

// limit checks what admission checks as well: policies get past it.
func (c *Controller) limit(p *cleanup.Policy) (errs field.ErrorList, err error) {
	if err := p.CheckInterval(c.options.MinInterval); err != nil {
		errs = append(errs, err)
	}
	if p.Namespace == "" {
		return errs, nil
	}
	all, err := c.namespaced.All()
	if err != nil {
		return nil, err
	}
	own, older := all[p.Namespace+"/"+p.Name], 0
	for key, one := range all {
		namespace, _, _ := strings.Cut(key, "/")
		if namespace == p.Namespace && one.uid != p.UID && cmp.Or(one.created.Compare(own.created), cmp.Compare(one.uid, p.UID)) < 0 {
			older++
		}
	}
	if older >= c.options.MaxPolicies {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "namespace"), fmt.Sprintf("namespace %q has %d older CleanupPolicies, and %d may run", p.Namespace, older, c.options.MaxPolicies)))
	}
	return errs, nil
}

// due returns the scheduled time of a run that should start now, and when the next one is due.
func (cur *current) due() (due, next time.Time) {
	status := cur.ledger.status()
	after := cur.object.GetCreationTimestamp().Time
	if status.ScheduleSinceTime != nil && status.ScheduleSinceTime.After(after) {
		after = status.ScheduleSinceTime.Time
	}
	if cur.changed(status) {
		if since := cur.changedAt(status); since.After(after) {
			after = since
		}
	}
	if status.LastScheduleTime != nil && status.LastScheduleTime.After(after) {
		after = status.LastScheduleTime.Time
	}
	if after.After(cur.now) {
		after = cur.now // The clock was set back.
	}
	due, _ = cur.policy.Schedule.Latest(after, cur.now)
	if !due.IsZero() && cur.tooLate(due) {
		due = time.Time{}
	}
	return due, cur.policy.Schedule.Next(cur.now)
}

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
	if cur.changed(before) {
		since := metav1.NewTime(cur.now)
		if len(errs) == 0 {
			since.Time = cur.changedAt(before)
		}
		after.ScheduleSinceTime = &since
	}
	after.ObservedGeneration = cur.policy.Generation
	if !next.IsZero() {
		at := metav1.NewTime(next)
		after.NextScheduleTime = &at
	}
	ready := expression.Ready(cur.policy.Generation, errs, nil)
	ready.LastTransitionTime = metav1.NewTime(cur.now)
	meta.SetStatusCondition((*[]metav1.Condition)(&after.Conditions), ready)
	if equalStatus(before, after) {
		return nil
	}
	return cur.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) { *s = *after })
}
