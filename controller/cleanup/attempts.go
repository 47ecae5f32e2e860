package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

const (
	// minWait and maxWait bound the wait between two attempts at a page.
	minWait, maxWait = time.Second, 30 * time.Second
	// patience is how many attempts in a row may decide nothing: they take a minute and a half.
	// untriedPatience is the same for attempts at which nothing was sent, because another page took
	// what a breaker lets through: they take a quarter of an hour. Later pages of a kind that an
	// earlier one gave up on have patience for both.
	patience, untriedPatience = 7, 35
	// readAgain is how often objects of a page are read again whose kind cannot be read: that takes
	// half a minute.
	readAgain = 5
)

// learn marks a resource as failing if this page gave up on one of its objects and deleted none. It
// clears the mark if the page deleted one.
func (b *batch) learn() {
	failed, deleted := map[schema.GroupResource]bool{}, map[schema.GroupResource]bool{}
	for _, item := range b.order {
		resource := schema.GroupResource{Group: item.Group, Resource: item.Resource}
		failed[resource] = failed[resource] || item.Result == v1alpha1.ItemFailed || item.Result == v1alpha1.ItemUnknown
		deleted[resource] = deleted[resource] || item.Result == v1alpha1.ItemDeleted
	}
	b.run.mu.Lock()
	defer b.run.mu.Unlock()
	for resource := range failed {
		b.run.failing[resource] = !deleted[resource] && (failed[resource] || b.run.failing[resource])
	}
}

// futile reports whether an earlier page gave up on all the resources of these objects. A kind
// whose breaker is open would otherwise have each page of a run wait for a quarter of an hour.
func (r *run) futile(items []*v1alpha1.CleanupItem) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(items, func(item *v1alpha1.CleanupItem) bool {
		return !r.failing[schema.GroupResource{Group: item.Group, Resource: item.Resource}]
	})
}

// giveUp ends with objects that cannot be deleted. Those that fail by themselves, for example
// because of a webhook of their namespace, have failed if they still exist. Any other trouble
// interrupts the run.
func (b *batch) giveUp(ctx context.Context, left []*v1alpha1.CleanupItem) error {
	for _, item := range left {
		if trouble := b.trouble[item.UID]; !trouble.own {
			return trouble.err
		}
	}
	failed := func(item *v1alpha1.CleanupItem) { b.fail(item, b.trouble[item.UID].err) }
	return b.check(ctx, failed, failed)
}

// check reads the undecided objects and deletes none. It marks an object that is gone as Gone, and
// one that cannot be known as Unknown; exists decides about the others. Where a kind cannot be
// read, broken decides; a nil broken makes that an error.
func (b *batch) check(ctx context.Context, exists, broken func(*v1alpha1.CleanupItem)) error {
	for _, item := range b.undecided() {
		object, err := b.find(ctx, item, broken != nil)
		switch {
		case errors.Is(err, errNotServed):
			item.Result, item.Message = v1alpha1.ItemUnknown, errNotServed.Error()
		case b.run.ending && isForbidden(err): // The account may not read it, and newer runs wait for this one.
			item.Result, item.Message = v1alpha1.ItemUnknown, "the service account may not read it any more"
		case broken != nil && unreadable(err):
			broken(item)
		case err != nil:
			return err
		case object == nil:
			item.Result, item.Message = v1alpha1.ItemGone, ""
		default:
			exists(item)
		}
	}
	return nil
}

// find reads an object live. It is nil if it is gone. A patient find reads again, a few times for
// the whole page, where the kind cannot be read: that may be over in a moment.
func (b *batch) find(ctx context.Context, item *v1alpha1.CleanupItem, patient bool) (*unstructured.Unstructured, error) {
	for backoff := loop.NewBackoffOf(minWait, maxWait); ; b.unread++ {
		object, _, err := b.run.look(ctx, item)
		if apierrors.IsNotFound(err) {
			object, err = b.run.lookElsewhere(ctx, item, err)
		}
		if !patient || b.unread == readAgain || !unreadable(err) {
			return object, err
		}
		if !loop.Pause(ctx, b.run.c.options.Clock, backoff.Next()) {
			return nil, context.Cause(ctx)
		}
	}
}

// unreadable reports whether a kind cannot be read. A 404 for a kind that discovery shows will be
// over soon.
func unreadable(err error) bool { return survey.OfItsKind(err) && !apierrors.IsNotFound(err) }

// undecided returns the items without an outcome, the least tried ones first: while deletions are
// paused, only a few of them are tried.
func (b *batch) undecided() []*v1alpha1.CleanupItem {
	left := slices.DeleteFunc(slices.Clone(b.order), decided)
	slices.SortStableFunc(left, func(cleanupItem, other *v1alpha1.CleanupItem) int {
		return cmp.Compare(b.trouble[cleanupItem.UID].tries, b.trouble[other.UID].tries)
	})
	return left
}

// tries are the attempts that were made at objects of the page.
func (b *batch) tries() (all int) {
	for _, trouble := range b.trouble {
		all += trouble.tries
	}
	return all
}

// answered notes an answer that no retry will change: something but the rights of the account
// refuses the deletion, such as an admission webhook. It also notes that none came.
func (b *batch) answered(uid types.UID, result deletion.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	webhook := result.Origin == deletion.FromAdmission
	switch {
	case result.Outcome == deletion.Failed && (result.Code == 0 || result.Code == http.StatusGatewayTimeout):
		b.unanswered[uid] = true
	case result.Outcome == deletion.Throttled:
		if b.throttled[uid] = webhook; !webhook {
			b.busy = b.run.c.options.Clock.Now().Add(max(minWait, result.After))
		}
	case result.Outcome == deletion.Refused && (webhook || result.Code != http.StatusForbidden && result.Code != http.StatusUnauthorized):
		b.fail(b.items[uid], result.Err)
	}
}

// isBusy reports whether the API server has answered the account with 429. Nothing more is sent in
// this attempt, so that others of the account's flow are not pushed away.
func (b *batch) isBusy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.busy.IsZero()
}

// Judge implements [expire.Work]: it reads an object live, as the account of the run.
func (b *batch) Judge(ctx context.Context, o expire.Entry) (expire.Judgement, error) {
	if b.isBusy() {
		return expire.Judgement{}, errBusy
	}
	b.mu.Lock()
	item := *b.items[o.UID]
	b.mu.Unlock()
	object, gone, err := b.run.look(ctx, &item)
	if object == nil {
		return gone, err
	}
	if !b.run.c.unchanged(b.run.policy) {
		b.keep(o.UID, errChanged.Error())
		return expire.Judgement{Verdict: expire.Keep}, nil
	}
	decision, err := b.judge(ctx, &item, object, b.run.c.options.Live)
	if err != nil {
		return expire.Judgement{}, err
	}
	switch {
	case decision.Verdict == cleanup.NoMatch:
		b.keep(o.UID, "it does not match any more")
	case decision.Reason == cleanup.SkipEvaluation && b.budget.Spent():
		b.mu.Lock()
		b.fail(b.items[o.UID], errors.New(decision.Message)) // Others spent it, so it still matches.
		b.mu.Unlock()
	case decision.Verdict == cleanup.Skip:
		b.keep(o.UID, decision.Message)
	case b.newest(&decision, o.UID):
		b.keep(o.UID, "it is one of the newest")
	default:
		o.ResourceVersion = object.GetResourceVersion()
		agrees := func(ctx context.Context) bool {
			cached, err := b.judge(ctx, &item, object, b.run.c.options.Cached)
			return err == nil && cached.Verdict == cleanup.Delete && !b.newest(&cached, o.UID)
		}
		return expire.Judgement{Verdict: expire.Track, Object: o, Finalizers: object.GetFinalizers(), Agrees: agrees}, nil
	}
	return expire.Judgement{Verdict: expire.Keep}, nil
}

// judge decides about an object that was just read, by what source knows of its context.
func (b *batch) judge(
	ctx context.Context, item *v1alpha1.CleanupItem, object *unstructured.Unstructured, source platform.Source,
) (cleanup.Decision, error) {
	place := &turn{of: b.run.c.judging, namespace: cmp.Or(b.run.policy.Namespace, b.run.policy.ID())}
	defer place.end()
	return b.run.survey.JudgeLive(ctx, targetOf(item), object, source, b.budget, place.judging)
}

// newest reports whether keepNewest keeps an object.
func (b *batch) newest(decision *cleanup.Decision, uid types.UID) bool {
	newest := b.run.survey.Newest
	return newest != nil && newest.Keeps(decision.Group, decision.Time, uid)
}

// judging is away for a live judgement. Without a turn in time nothing is wrong with its object.
func (u *turn) judging(ctx context.Context, f func() error) error {
	u.end()
	if err := cmp.Or(f(), ctx.Err()); err != nil {
		return err
	}
	if err := u.take(ctx); err != nil {
		return fmt.Errorf("%w: %w", expire.ErrNoSlot, err)
	}
	return nil
}

// targetOf is the resource of an item.
func targetOf(item *v1alpha1.CleanupItem) *cleanup.Target {
	return &cleanup.Target{
		GroupVersionResource: schema.GroupVersionResource{Group: item.Group, Version: item.Version, Resource: item.Resource},
		Kind:                 item.Kind, Namespaced: item.Namespace != "",
	}
}

// look reads an object live, as the account of the run. It is nil if it is gone or being deleted;
// then gone says which.
func (r *run) look(ctx context.Context, item *v1alpha1.CleanupItem) (object *unstructured.Unstructured, gone expire.Judgement, err error) {
	object, err = r.survey.Get(ctx, targetOf(item), item.Namespace, item.Name)
	switch {
	case follow.IsGone(err), err == nil && object.GetUID() != item.UID:
		return nil, expire.Judgement{Verdict: expire.Gone}, nil
	case err != nil:
		return nil, gone, fmt.Errorf("reading %s %s/%s: %w", item.Kind, item.Namespace, item.Name, err)
	}
	if since := object.GetDeletionTimestamp(); since != nil {
		return nil, expire.Judgement{Verdict: expire.BeingDeleted, Since: since.Time}, nil
	}
	return object, gone, nil
}

// errNotServed: no version of a resource is served. Its kind may be gone, and its objects with it,
// or its API does not answer.
var errNotServed = errors.New("its resource is not served any more")

// lookElsewhere reads an object whose resource is not served any more: in another version. The
// error is errNotServed if there is none.
func (r *run) lookElsewhere(ctx context.Context, item *v1alpha1.CleanupItem, notServed error) (*unstructured.Unstructured, error) {
	served, err := r.c.options.Served(ctx)
	if silent := cleanup.SilentGroups(nil); err != nil && !errors.As(err, &silent) {
		return nil, err
	}
	i := slices.IndexFunc(served, func(r cleanup.Resource) bool { return r.Group == item.Group && r.Resource == item.Resource })
	switch {
	case i < 0:
		return nil, errNotServed
	case slices.Contains(served[i].Versions, item.Version):
		return nil, notServed
	}
	item.Version = served[i].Versions[0]
	object, _, err := r.look(ctx, item)
	return object, err
}
