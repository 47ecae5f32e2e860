package cleanup

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// heldEvery is how often a run looks whether a pause still holds its objects.
const heldEvery = 2 * time.Second

// laterMost is how many objects a run remembers that a pause of their namespace holds. They take 3
// MB. If there are more, it lists again in the end. Tests make it smaller.
var laterMost = 10_000

const messageHeld = "a pause holds its deletions: kubectl curfew status shows which. The run goes on afterwards"

// held reports whether a pause holds one of the objects.
func (b *batch) held(items []*v1alpha1.CleanupItem) bool {
	return slices.ContainsFunc(items, func(item *v1alpha1.CleanupItem) bool { return b.trouble[item.UID].held })
}

// postpone leaves objects whose namespace is paused to the end of the run, so that they do not hold
// up other namespaces. It reports whether there were any.
func (b *batch) postpone(ctx context.Context, items []*v1alpha1.CleanupItem) (any bool) {
	for _, item := range items {
		if b.trouble[item.UID].held && b.run.heldAlone(ctx, item) {
			b.run.later(item)
			item.Result, item.Message = v1alpha1.ItemKept, "a pause holds it: the run comes back to it"
			any = true
		}
	}
	return any
}

func scopeOf(item *v1alpha1.CleanupItem) string {
	return policy.PauseScope(item.Group, item.Kind, item.Namespace, item.Name)
}

// heldAlone reports whether a pause holds an object and may not hold others that the policy
// matches.
func (r *run) heldAlone(ctx context.Context, item *v1alpha1.CleanupItem) bool {
	scope, held := scopeOf(item), r.c.options.Held
	return r.policy.Namespace == "" && scope != "" && held(ctx, scope) && !held(ctx, "")
}

// later leaves an object to the end of the run.
func (r *run) later(item *v1alpha1.CleanupItem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.postponed) == laterMost {
		r.moreHeld = true
		return
	}
	again := *item
	again.Result, again.Message = "", ""
	r.postponed = append(r.postponed, again)
}

// errMoreHeld: a pause held more objects than a run remembers. It lists again.
var errMoreHeld = errors.New("a pause held more objects than the run remembers")

// deleteHeld deletes the objects that were left to the end of the run, each once no pause holds it
// any more.
func (r *run) deleteHeld(ctx context.Context) error {
	for len(r.postponed) > 0 {
		var free []v1alpha1.CleanupItem
		err := r.cur.turn.away(ctx, func() error {
			for {
				if free = r.released(ctx); len(free) > 0 {
					return nil
				}
				if err := r.wait(ctx); err != nil {
					return err
				}
			}
		})
		if err != nil {
			return err
		}
		batches := newBatches(ctx, r)
		for page := range slices.Chunk(free, batchSize) {
			if err = batches.add(slices.Clone(page)); err != nil {
				break
			}
		}
		if err = errors.Join(err, batches.wait()); err != nil {
			return err
		}
	}
	if r.moreHeld {
		return errMoreHeld
	}
	return nil
}

// again lists and judges once more, as if the run had been interrupted.
func (r *run) again(ctx context.Context) error {
	r.remembers.end()
	r.resumed, r.moreHeld = true, false
	r.newSurvey(0)
	return r.carryOut(ctx)
}

// released takes the postponed objects that no pause holds any more.
func (r *run) released(ctx context.Context) (free []v1alpha1.CleanupItem) {
	held := map[string]bool{}
	r.postponed = slices.DeleteFunc(r.postponed, func(item v1alpha1.CleanupItem) bool {
		scope := scopeOf(&item)
		if _, known := held[scope]; !known {
			held[scope] = r.c.options.Held(ctx, scope)
		}
		if !held[scope] {
			free = append(free, item)
		}
		return !held[scope]
	})
	return free
}

// wait waits a moment because a pause holds objects. That counts against no limit of the run.
func (r *run) wait(ctx context.Context) error {
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

// stillPaused reports whether a pause held the run of a policy, and one still holds something that
// the policy may match. The status alone does not decide: others may have written that.
func (c *Controller) stillPaused(ctx context.Context, p *cleanup.Policy, s *v1alpha1.CleanupPolicyStatus) bool {
	if !paused(s) {
		return false
	}
	known, err := c.options.Namespaces()
	if err != nil {
		return true // It is not known, and the run waits until it is.
	}
	names, all := p.Namespaces(known)
	if all {
		for _, one := range known {
			names = append(names, one.Name)
		}
	}
	return slices.ContainsFunc(append(names, ""), func(scope string) bool { return c.options.Held(ctx, scope) })
}

// paused reports whether a status says that a pause holds the run.
func paused(s *v1alpha1.CleanupPolicyStatus) bool {
	stalled := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == v1alpha1.ReasonPaused
}

// away waits for a while, and lets other runs work.
func (r *run) away(ctx context.Context, d time.Duration) error {
	return r.cur.turn.away(ctx, func() error {
		if !loop.Pause(ctx, r.c.options.Clock, d) {
			return context.Cause(ctx)
		}
		return nil
	})
}
