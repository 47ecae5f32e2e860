package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// dueRun is a cleanup policy with those of its runs that are evaluated.
type dueRun struct {
	stored *world.CleanupPolicy
	policy *cleanup.Policy
	at     []time.Time
	// doubt is why nobody can say here which objects the run deletes; nil for none.
	doubt *policy.Obstacle
}

func (d *dueRun) source() policy.Source {
	return policy.Source{Level: policy.Level(policy.TriggerCleanup), Name: strings.TrimPrefix(d.policy.ID(), string(policy.TriggerCleanup)+"/")}
}

// idle is why the policy deletes nothing; "" if it may.
func (d *dueRun) idle(ctx context.Context, w *world.World) (why string, err error) {
	switch {
	case d.policy.Spec.Suspend:
		return "suspended", nil
	case d.policy.Spec.DryRun:
		return "dry run", nil
	}
	if why := d.reported(v1alpha1.ConditionReady); why != "" {
		return why, nil
	}
	if lacks := d.reported(v1alpha1.ConditionPermissionsGranted); lacks != "" {
		d.doubt = &policy.Obstacle{Kind: policy.ObstaclePermission, Message: "the policy's service account lacks permissions: " + lacks}
	}
	switch {
	case !d.policy.NeedsApproval(w.Controller.Published["require-approval"] == "true"):
		return "", nil
	}
	approved, known, err := w.Approved(ctx, d.policy)
	switch {
	case !known:
		d.doubt = &policy.Obstacle{Kind: policy.ObstaclePermission, Message: "you may not list approvals: whether the policy has one is not known"}
	case !approved:
		why = "not approved"
	}
	return why, err
}

// overdue is when a run was due that goes on, or starts as soon as the controller runs: the
// controller makes up for the last run that it missed, within startingDeadlineSeconds. It is zero
// for none. A forged status shows a wrong row here, and changes no run.
func overdue(stored *world.CleanupPolicy, p *cleanup.Policy, now time.Time) time.Time {
	status := &stored.Status
	var at time.Time
	if announced := status.NextScheduleTime; announced != nil && !announced.After(now) {
		before := announced.Add(-time.Second)
		if status.ObservedGeneration == stored.Generation || p.Schedule.Next(before).Equal(announced.Time) {
			at, _ = p.Schedule.Latest(before, now)
		}
	}
	if last := status.LastRun; at.IsZero() && last != nil && last.Phase == v1alpha1.RunRunning && !last.DryRun && !last.ScheduledTime.After(now) {
		at = last.ScheduledTime.In(p.Schedule.Location())
	}
	if deadline := p.Spec.StartingDeadlineSeconds; deadline != nil && int64(now.Sub(at)/time.Second) > *deadline {
		return time.Time{}
	}
	return at
}

// reported is the message of a condition that is False for the present spec; "" otherwise. Only
// Curfew writes it; a forged one adds or removes a "?" here, and changes no run.
func (d *dueRun) reported(kind string) string {
	found := condition(d.stored, kind)
	if found == nil || found.Status != metav1.ConditionFalse || d.stored.Status.ObservedGeneration != d.stored.Generation {
		return ""
	}
	return cmp.Or(oneLine(found.Message), found.Reason)
}
