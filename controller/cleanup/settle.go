package cleanup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

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

// announced reads a page that the status announces. It is nil if it is not exactly what this run
// announced: others have written the page or the status, and it must be neither counted nor
// overwritten.
func (r *run) announced(ctx context.Context, uncounted *v1alpha1.UncountedPage) (*page, error) {
	fields, err := r.ledger.store.readPage(ctx, uncounted.Report)
	if err != nil || fields == nil || fields.Run != r.info.ID || uncounted.SHA256 != sumItems(fields.Objects) {
		return nil, err
	}
	page := newPage(fields.Policy, fields.Run, fields.Page, false, fields.Objects)
	if page.name = pageName(r.policy.Name, fields.Run, fields.Page); page.name != uncounted.Report {
		return nil, nil
	}
	return page, nil
}

// lose forgets a page that another writer deleted or changed: its outcomes are unknown from now on.
func (r *run) lose(ctx context.Context, page *v1alpha1.UncountedPage) error {
	r.log.Info("a report page was deleted or changed before its objects were counted", "report", page.Report, "objects", len(page.UIDs))
	return r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		s.UncountedDeletions = without(s.UncountedDeletions, page.Report)
		if s.LastRun.Lost = plus(s.LastRun.Lost, int64(len(page.UIDs))); len(page.UIDs) == 0 {
			return
		}
		message := fmt.Sprintf("report %s was deleted or changed before its objects were counted: up to %d deletions are in no count", page.Report, s.LastRun.Lost)
		r.cur.set(s, v1alpha1.ConditionCountsExact, metav1.ConditionFalse, v1alpha1.ReasonReportLost, message)
	})
}

// sumItems is the checksum of what identifies the objects of a page. Whatever a run finds out about
// them does not change it.
func sumItems(items []v1alpha1.CleanupItem) string {
	sum := sha256.New()
	for i := range items {
		item := &items[i]
		_, _ = fmt.Fprintf(sum, "%q %q %q %q %q %q\n", item.UID, item.Group, item.Kind, item.Resource, item.Namespace, item.Name)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
