package cleanup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// resume continues a run that was interrupted. It counts the announced objects that are gone, and
// lists, judges and announces the rest again.
func (r *run) resume(ctx context.Context) error {
	r.resumed = true
	r.forbidden = meta.IsStatusConditionFalse(r.ledger.status().Conditions, v1alpha1.ConditionPermissionsGranted)
	if r.forbidden { // It waits while anything is missing, and need not ask for everything each time.
		r.newSurvey(maxLacks)
	}
	if err := r.settle(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return r.carryOut(ctx)
}

// settle reads the objects that an interrupted run had announced, and counts those that are gone.
// It deletes nothing. It ignores results that are on the page already, as others may have written
// them. Other runs have the turn meanwhile, since this may wait for a kind that cannot be read.
func (r *run) settle(ctx context.Context) error {
	return r.cur.turn.away(ctx, func() error { return r.settleAll(ctx) })
}

func (r *run) settleAll(ctx context.Context) error {
	var broken func(*v1alpha1.CleanupItem)
	if r.ending { // Newer runs wait for this one, and cannot wait until a user repairs the kind.
		broken = func(item *v1alpha1.CleanupItem) {
			item.Result, item.Message = v1alpha1.ItemUnknown, "its kind cannot be read"
		}
	}
	for _, uncounted := range r.ledger.status().UncountedDeletions {
		page, err := r.announced(ctx, &uncounted)
		if err != nil {
			return err
		}
		if page == nil {
			if err := r.lose(ctx, &uncounted); err != nil {
				return err
			}
			continue
		}
		unknown := map[types.UID]bool{}
		for i := range page.fields.Objects {
			item := &page.fields.Objects[i]
			unknown[item.UID], item.Result = item.Result == v1alpha1.ItemUnknown, ""
		}
		err = r.newBatch(page).check(ctx, func(item *v1alpha1.CleanupItem) {
			item.Result, item.Message = v1alpha1.ItemKept, wasInterrupted
			if unknown[item.UID] { // Its DELETE may still be carried out.
				item.Result, item.Message = v1alpha1.ItemUnknown, ""
			}
		}, broken)
		if err != nil {
			return err
		}
		if err := r.count(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// announced reads a page that the status announces. It is nil if it is not exactly what this run
// announced: others have written the page or the status, and it must be neither counted nor
// overwritten.
func (r *run) announced(ctx context.Context, uncounted *v1alpha1.UncountedPage) (*page, error) {
	fields, version, err := r.ledger.store.readPage(ctx, uncounted.Report)
	if err != nil || fields == nil || fields.Run != r.info.ID || uncounted.SHA256 != sumItems(fields.Objects) {
		return nil, err
	}
	page := newPage(fields.Policy, fields.Run, fields.Page, false, fields.Objects)
	page.version = version
	if page.name = pageName(r.policy.Name, fields.Run, fields.Page); page.name != uncounted.Report {
		return nil, nil
	}
	return page, nil
}

// lose forgets a page that another writer deleted or changed: its outcomes are unknown from now on.
func (r *run) lose(ctx context.Context, page *v1alpha1.UncountedPage) error {
	r.log.Info("a report page was deleted or changed before its objects were counted", "report", page.Report, "objects", len(page.UIDs))
	r.c.metrics.objects.WithLabelValues("Lost").Add(float64(len(page.UIDs)))
	return r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		s.UncountedDeletions = without(s.UncountedDeletions, page.Report)
		if s.LastRun.Lost = plus(s.LastRun.Lost, int64(len(page.UIDs))); len(page.UIDs) == 0 {
			return
		}
		message := fmt.Sprintf("report %s was deleted or changed before its objects were counted: up to %d deletions are in no count",
			page.Report, s.LastRun.Lost)
		r.cur.set(s, v1alpha1.ConditionCountsExact, metav1.ConditionFalse, v1alpha1.ReasonReportLost, message)
	})
}

// recount returns how many objects the run has deleted, or may have, by its pages or the status,
// whichever says more. It finds the number of its next page, and the objects that it has counted.
func (r *run) recount(ctx context.Context) (deleted int64, err error) {
	counted, last, gone, err := r.ledger.store.counted(ctx, r.info.ID)
	if r.gone = gone; err != nil {
		return 0, err
	}
	run := r.ledger.status().LastRun
	if r.pages = max(run.Pages, last); r.pages > maxPages {
		r.pages = last
	}
	return min(max(run.Deleted, counted), maxCounted) + min(max(0, run.Lost), maxCounted), nil
}

// count counts the outcomes on a page. What the run has deleted and counted before, and an API that
// is behind has listed again, is not counted twice.
func (r *run) count(ctx context.Context, page *page) error {
	for i := range page.fields.Objects {
		if item := &page.fields.Objects[i]; item.Result == v1alpha1.ItemGone && r.gone[item.UID] {
			item.Result, item.Message = v1alpha1.ItemKept, wasInterrupted
		}
	}
	r.observe(page)
	return r.ledger.count(ctx, page, func(s *v1alpha1.CleanupPolicyStatus, unknown int64) {
		s.LastRun.Lost = plus(s.LastRun.Lost, unknown)
		message := fmt.Sprintf("DELETEs of report %s have no known outcome: up to %d deletions are in no count", page.name, s.LastRun.Lost)
		r.cur.set(s, v1alpha1.ConditionCountsExact, metav1.ConditionFalse, v1alpha1.ReasonNoAnswer, message)
	})
}

// observe counts the outcomes on a page in the metric, each once.
func (r *run) observe(page *page) {
	for i := range page.fields.Objects {
		if item := &page.fields.Objects[i]; r.ending || item.Message != wasInterrupted && item.Message != comesBack {
			r.c.metrics.objects.WithLabelValues(string(item.Result)).Inc()
		}
	}
}
