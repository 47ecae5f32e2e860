package cleanup

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/v1alpha1"
)

// heldEvery is how often a run looks whether a pause still holds its objects.
const heldEvery = 2 * time.Second

const messageHeld = "a pause holds its deletions: kubectl curfew status shows which. The run goes on afterwards"

// held reports whether a pause holds one of the objects.
func (b *batch) held(items []*v1alpha1.CleanupItem) bool {
	return slices.ContainsFunc(items, func(item *v1alpha1.CleanupItem) bool { return b.trouble[item.UID].held })
}

// wait waits a moment because a pause holds objects of the batch. That counts against no limit of
// the run.
func (b *batch) wait(ctx context.Context) error {
	r := b.run
	if !r.c.unchanged(r.policy) {
		return errChanged
	}
	if !paused(r.ledger.status()) {
		err := r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
			r.cur.set(s, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonPaused, messageHeld)
		})
		if err != nil {
			return err
		}
	}
	if !loop.Pause(ctx, r.c.options.Clock, heldEvery) {
		return context.Cause(ctx)
	}
	return nil
}

// paused reports whether a pause held the run of a policy when its status was written.
func paused(s *v1alpha1.CleanupPolicyStatus) bool {
	stalled := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == v1alpha1.ReasonPaused
}
