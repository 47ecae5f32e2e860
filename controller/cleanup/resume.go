package cleanup

import (
	"context"
	"time"

	"curfew.dev/curfew/policy/v1alpha1"
)

// finish completes a run that was interrupted: the process was killed, or something failed. It
// deletes more only while the policy is unchanged and no newer run is due.
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
		switch {
		case cur.tooLate(status.LastRun.ScheduledTime.Time) && !c.stillPaused(ctx, cur.policy, status):
			why = "the run was interrupted until its startingDeadlineSeconds had passed"
		case !cur.hasBegun(status.LastRun):
			why = "status.lastRun does not name the last run of the schedule"
		default:
			return r.resume(ctx)
		}
	}
	r.ending = true
	if err := r.settle(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return r.end(ctx, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, why)
}

// hasBegun reports whether a run is the last one that the schedule has begun. Who may write the
// status could otherwise start runs at any time, each with the full limits of the policy. Such a
// user can still have the last run of the schedule carried out again: it deletes what the spec says
// now, by the clock of now, up to the limits of one run (see recount).
func (cur *current) hasBegun(run *v1alpha1.CleanupRun) bool {
	at, schedule := run.ScheduledTime.Time, cur.policy.Schedule
	return run.ID == runID(at, cur.policy.UID) && !cur.ahead(at) &&
		schedule.Next(at.Add(-time.Second)).Equal(at) && schedule.Next(at).After(cur.now)
}

// mostPages and mostCounted bound what a status says of a run, far above what one can do.
const mostPages, mostCounted = 10_000_000, 1 << 40

// recount returns how many objects the run has deleted, or may have, by its pages or the status,
// whichever says more. It finds the number of its next page.
func (r *run) recount(ctx context.Context) (deleted int64, err error) {
	counted, last, err := r.ledger.store.counted(ctx, r.info.ID)
	if err != nil {
		return 0, err
	}
	run := r.ledger.status().LastRun
	if r.pages = max(run.Pages, last); r.pages > mostPages {
		r.pages = last
	}
	return min(max(run.Deleted, counted), mostCounted) + min(max(0, run.Lost), mostCounted), nil
}
