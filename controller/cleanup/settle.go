package cleanup

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// settle finds out what became of the objects that an interrupted run had announced, and counts
// those that are gone. It deletes nothing. Results that the page already has do not count, as
// others may have written them: an object is read, by its UID in the status.
func (r *run) settle(ctx context.Context) error {
	var broken func(*v1alpha1.CleanupItem)
	if r.ending { // Newer runs wait for this one, and cannot wait until somebody repairs the kind.
		broken = func(item *v1alpha1.CleanupItem) {
			item.Result, item.Message = v1alpha1.ItemUnknown, "its kind cannot be read"
		}
	}
	for _, uncounted := range r.ledger.status().UncountedDeletions {
		fields, err := r.ledger.store.readPage(ctx, uncounted.Report)
		if err != nil {
			return err
		}
		if fields == nil {
			fields = &v1alpha1.CleanupReportFields{}
		}
		known, unknown := map[types.UID]bool{}, map[types.UID]bool{}
		fields.Objects = slices.DeleteFunc(fields.Objects, func(item v1alpha1.CleanupItem) bool {
			twice := known[item.UID]
			known[item.UID] = true
			return twice || !slices.Contains(uncounted.UIDs, item.UID)
		})
		if err := r.lose(ctx, &uncounted, func(uid types.UID) bool { return !known[uid] }); err != nil {
			return err
		}
		if len(fields.Objects) == 0 {
			continue
		}
		for i := range fields.Objects {
			item := &fields.Objects[i]
			unknown[item.UID], item.Result = item.Result == v1alpha1.ItemUnknown, ""
		}
		fields.Truncated, fields.Summary = false, nil
		page := &page{name: uncounted.Report, fields: *fields}
		err = r.newBatch(page).check(ctx, func(item *v1alpha1.CleanupItem) {
			item.Result, item.Message = v1alpha1.ItemKept, "the run was interrupted"
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

// lose forgets the objects of a page that somebody deleted or changed: what became of them is not
// known any more.
func (r *run) lose(ctx context.Context, page *v1alpha1.UncountedPage, lost func(types.UID) bool) error {
	left := slices.DeleteFunc(slices.Clone(page.UIDs), lost)
	count := len(page.UIDs) - len(left)
	if count == 0 {
		return nil
	}
	r.log.Info("a report page is gone before its objects were counted", "report", page.Report, "objects", count)
	return r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		of := slices.IndexFunc(s.UncountedDeletions, func(u v1alpha1.UncountedPage) bool { return u.Report == page.Report })
		if s.UncountedDeletions[of].UIDs = left; len(left) == 0 {
			s.UncountedDeletions = slices.Delete(s.UncountedDeletions, of, of+1)
		}
		s.LastRun.Lost += int64(count)
		message := fmt.Sprintf("report %s was deleted or changed before its objects were counted: up to %d deletions are in no count", page.Report, s.LastRun.Lost)
		r.cur.set(s, v1alpha1.ConditionCountsExact, metav1.ConditionFalse, v1alpha1.ReasonReportLost, message)
	})
}
