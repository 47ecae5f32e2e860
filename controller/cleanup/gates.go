package cleanup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
)

// approved reports whether the run may delete: its policy needs no approval, or has one as it is
// now. All approvals are listed only to find one, or where Curfew's role lacks "get". Anyone who
// can create some in the namespace could otherwise make each batch wait for thousands.
func (r *run) approved(ctx context.Context) (bool, error) {
	p, objects := r.policy, r.c.options.Objects
	if !p.NeedsApproval(r.c.options.RequireApproval) {
		return true, nil
	}
	resource := v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupApprovals)
	if p.Namespace != "" {
		resource = v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupApprovals)
	}
	if r.approval != "" {
		object, err := objects.Resource(resource).Namespace(p.Namespace).Get(ctx, r.approval, metav1.GetOptions{})
		switch {
		case err == nil && p.ApprovedBy(object, r.approvalsAfter):
			return true, nil
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return false, fmt.Errorf("reading approval %s of %s: %w", r.approval, p.ID(), err)
		}
		r.approval = "" // There may be another one.
	}
	err := survey.Clients{Objects: objects}.Each(ctx, resource, p.Namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
		if p.ApprovedBy(object, r.approvalsAfter) {
			r.approval = object.GetName()
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("listing approvals of %s: %w", p.ID(), err)
	}
	return r.approval != "", nil
}

// waiting says how to approve the policy.
func (r *run) waiting() string {
	kind := "ClusterCleanupApproval"
	if r.policy.Namespace != "" {
		kind = "CleanupApproval"
	}
	message := fmt.Sprintf("the policy as it is now is not approved: look at the report of this run, and create a %s "+
		"with policyUID %s and specHash %s", kind, r.policy.UID, r.policy.Hash)
	if t := r.approvalsAfter; t != nil {
		message += ". The policy had another spec: approvals from before " + t.UTC().Format(time.RFC3339) + " do not count"
	}
	return message
}

// errUnapproved: the approval of a live run was deleted. The run deletes nothing more.
var errUnapproved = errors.New("the approval of the policy was deleted")

// confirm is called before each attempt to delete a batch, and again while that lasts. It is an
// error if the policy was changed or suspended, if the account of the run was deleted since it
// began, or created again, or if its approval was deleted. Others of the run wait for the answer.
func (r *run) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, confirmedFor)
	defer cancel()
	t := r.c.options.Clock.Now()
	err := r.mayDelete(ctx)
	if err != nil {
		t = time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = t
	return err
}

func (r *run) mayDelete(ctx context.Context) error {
	if err := r.ledger.store.confirm(ctx); err != nil {
		return err
	}
	uid, err := r.account.Exists(ctx)
	if err != nil {
		return err
	}
	if uid != r.accountUID {
		return fmt.Errorf("service account %s was created again during the run: %w", r.account.Name, errForbidden)
	}
	approved, err := r.approved(ctx)
	if err == nil && !approved {
		err = errUnapproved
	}
	return err
}

const (
	// confirmedFor is how long a DELETE may rely on the last confirmation. From renewAfter on it is
	// renewed beside the DELETEs, so that none waits for it.
	confirmedFor = 10 * time.Second
	renewAfter   = confirmedFor / 2
)

// confirmed reports whether a DELETE may be sent, and confirms again if that was long ago. The
// mirror of the policies has no age: where its watch is silent, a suspended policy would go on.
func (b *batch) confirmed(ctx context.Context) bool {
	r := b.run
	age := r.confirmedAge()
	if age < renewAfter {
		return true
	}
	if age < confirmedFor {
		select {
		case r.confirming <- struct{}{}:
			r.renewing.Go(func() {
				_ = r.confirm(b.ctx) // If it fails, the next DELETE confirms again.
				<-r.confirming
			})
		default:
		}
		return true
	}
	r.confirming <- struct{}{} // Requests of the same time share the answer.
	defer func() { <-r.confirming }()
	if b.unconfirmed == nil && r.confirmedAge() >= confirmedFor {
		b.unconfirmed = r.confirm(ctx)
	}
	return b.unconfirmed == nil
}

// confirmedAge is how long ago the run was confirmed. Any clock counts: see [deletion.Age].
func (r *run) confirmedAge() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return deletion.Age(r.c.options.Clock.Now(), r.confirmed)
}

// ends reports whether an error of confirm ends the run, or makes it wait until a user acts. The
// run tries again after any other error.
func ends(err error) bool {
	return isForbidden(err) || errors.Is(err, errUnapproved) || errors.Is(err, errChanged) || errors.Is(err, errGone)
}

const (
	// permissionsEvery is how often the permissions of a policy are checked between its runs, plus up
	// to a fifth by chance.
	permissionsEvery = 5 * time.Minute
	// maxLacks is how many missing permissions a condition names.
	maxLacks = 3
)

// errDue ends a review of permissions.
var errDue = errors.New("the next run is due")

// review checks the permissions of a policy some minutes after the last time, or after a change. It
// has turns of its own, so that no run waits for it, and ends when the policy's next run is due,
// which checks them itself.
func (c *Controller) review(ctx context.Context, cur *current, left time.Duration) error {
	if !c.permissionsDue(cur) {
		return nil
	}
	cur.turn.end()
	ctx, cancel := context.WithTimeoutCause(ctx, left, errDue)
	defer cancel()
	turn, err := c.reviews.take(ctx, cur.policy.Namespace)
	if err == nil {
		defer turn.end()
		err = c.checkPermissions(ctx, cur)
	}
	switch {
	case err == nil:
		c.permissionsChecked(cur)
	case errors.Is(context.Cause(ctx), errDue):
		return nil
	}
	return err
}

// checkPermissions sets PermissionsGranted between runs, so that a missing permission shows before
// the first night.
func (c *Controller) checkPermissions(ctx context.Context, cur *current) error {
	r, err := c.newRun(cur, &v1alpha1.CleanupRun{})
	if err != nil {
		return err
	}
	r.newSurvey(maxLacks)
	var lacks []string
	if _, err = r.account.Exists(ctx); err == nil {
		lacks, err = r.survey.Open(ctx)
	}
	message := r.mayNot(lacks)
	switch {
	case isForbidden(err):
		message = err.Error()
	case err != nil:
		return err
	}
	after := cur.ledger.status()
	cur.permitted(after, message)
	if equalStatus(after, cur.ledger.status()) {
		return nil
	}
	return cur.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) { cur.permitted(s, message) })
}

// permissionsDue reports whether the permissions of a policy should be checked now, because it has
// changed or it was checked some minutes ago.
func (c *Controller) permissionsDue(cur *current) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.checked[cur.policy.UID]
	return !ok || last.generation != cur.policy.Generation || !cur.now.Before(last.until) || cur.now.Before(last.at)
}

func (c *Controller) permissionsChecked(cur *current) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.checked) >= maxChecked {
		clear(c.checked)
	}
	// #nosec G404 -- jitter.
	wait := permissionsEvery + time.Duration(rand.Int64N(int64(permissionsEvery/5)))
	c.checked[cur.policy.UID] = checked{cur.policy.Generation, cur.now, cur.now.Add(wait)}
}

// mayNot says what the account lacks; empty for nothing.
func (r *run) mayNot(lacks []string) string {
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("service account %s may not %s", r.account.Name, strings.Join(lacks[:min(maxLacks, len(lacks))], ", "))
}

// heldEvery is how often a run looks whether a pause still holds its objects.
const heldEvery = 2 * time.Second

// maxLater is how many objects a run remembers that a pause of their namespace holds. They take 3
// MB. If there are more, it lists again in the end. Tests make it smaller.
var maxLater = 10_000

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
			item.Result, item.Message = v1alpha1.ItemKept, comesBack
			any = true
		}
	}
	return any
}

func scopeOf(item *v1alpha1.CleanupItem) string {
	return judging.PauseScope(item.Group, item.Kind, item.Namespace, item.Name)
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
	if len(r.postponed) == maxLater {
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
	r.resumed, r.moreHeld, r.unused = true, false, nil
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
	reason, message := v1alpha1.ReasonPaused, messageHeld
	if unread := r.c.options.Unread(); unread != "" {
		reason, message = v1alpha1.ReasonUnread, "whether a pause holds its deletions cannot be read: "+unread+". The run goes on afterwards"
	}
	if paused(r.ledger.status()) != reason {
		err := r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
			r.cur.set(s, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
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
	if paused(s) == "" {
		return false
	}
	known, err := c.options.Namespaces()
	if err != nil {
		return true // It is not known, and the run waits until it is.
	}
	names, all := p.Namespaces(known)
	if all {
		for _, policy := range known {
			names = append(names, policy.Name)
		}
	}
	return slices.ContainsFunc(append(names, ""), func(scope string) bool { return c.options.Held(ctx, scope) })
}
