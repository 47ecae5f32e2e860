package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/v1alpha1"
)

// batches deletes up to inFlight batches at once.
type batches struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	run    *run
	free   chan struct{}
	all    sync.WaitGroup
}

func newBatches(ctx context.Context, r *run) *batches {
	ctx, cancel := context.WithCancelCause(ctx)
	return &batches{ctx: ctx, cancel: cancel, run: r, free: make(chan struct{}, inFlight)}
}

// submit puts the chosen objects into batches while there are at least so many. It may wait for
// deletions, so call it while no page of a list is held: the pages of a hundred runs would take too
// much memory.
func (r *run) submit(least int) error {
	for len(r.chosen) >= least {
		size := min(len(r.chosen), batchSize)
		if err := r.batches.add(r.chosen[:size:size]); err != nil {
			return err
		}
		r.chosen = r.chosen[size:]
	}
	return nil
}

// add deletes the objects once there is room. It returns the first error of any batch. The run
// gives its turn to others while it waits.
func (b *batches) add(items []v1alpha1.CleanupItem) error {
	select {
	case b.free <- struct{}{}:
	default:
		err := b.run.cur.turn.away(b.ctx, func() error {
			select {
			case b.free <- struct{}{}:
				return nil
			case <-b.ctx.Done():
				return context.Cause(b.ctx)
			}
		})
		if err != nil {
			return err
		}
	}
	if err := context.Cause(b.ctx); err != nil {
		return err
	}
	r := b.run
	if !r.c.unchanged(r.policy) {
		return errChanged
	}
	page := newPage(v1alpha1.PolicyReference{Name: r.policy.Name, UID: r.policy.UID}, r.info.ID, r.nextPage(), r.info.DryRun, items)
	b.all.Go(func() {
		defer func() { <-b.free }()
		if err := r.batch(b.ctx, page); err != nil {
			b.cancel(err)
		}
	})
	return nil
}

// wait waits for all batches. It returns the first error of any.
func (b *batches) wait() error {
	err := b.run.cur.turn.away(b.ctx, func() error {
		b.all.Wait()
		return context.Cause(b.ctx)
	})
	b.cancel(nil)
	return err
}

// batch deletes the objects of a page and counts them.
func (r *run) batch(ctx context.Context, page *page) error {
	if r.info.DryRun {
		for i := range page.fields.Objects {
			page.fields.Objects[i].Result = v1alpha1.ItemWouldDelete
		}
		r.observe(page)
		if page.fields.Page > detailedPages {
			page.summarise()
		}
		return r.write(ctx, page, r.ledger.replace)
	}
	if err := r.write(ctx, page, r.ledger.announce); err != nil {
		return err
	}
	if err := r.newBatch(page).decide(ctx); err != nil {
		return err
	}
	return r.count(ctx, page)
}

// write writes a new page, under the next number that is free: a process that was killed, or no
// longer leads, may have written one.
func (r *run) write(ctx context.Context, page *page, write func(context.Context, *page) error) error {
	err := write(ctx, page)
	for apierrors.IsAlreadyExists(err) {
		page.fields.Page = r.nextPage()
		page.name = pageName(page.fields.Policy.Name, page.fields.Run, page.fields.Page)
		err = write(ctx, page)
	}
	return err
}

// nextPage is the number of the next page.
func (r *run) nextPage() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages++
	return r.pages
}

// newBatch is what deletes the objects of a page.
func (r *run) newBatch(page *page) *batch {
	b := &batch{run: r, page: page.fields.Page, items: map[types.UID]*v1alpha1.CleanupItem{}, trouble: map[types.UID]trouble{}}
	b.unanswered, b.throttled = map[types.UID]bool{}, map[types.UID]bool{}
	for i := range page.fields.Objects {
		item := &page.fields.Objects[i]
		b.order, b.items[item.UID] = append(b.order, item), item
	}
	return b
}

// deletingAtOnce bounds how many objects of a page wait for the engine at once, each in a goroutine.
const deletingAtOnce = 64

// batch deletes the objects of a page, as the account of the run. It implements expire.Work.
type batch struct {
	run  *run
	page int32
	// order are the items of the page, and items the same by UID.
	order []*v1alpha1.CleanupItem
	// budget is what all live judgements of one attempt may cost.
	budget *expression.Budget
	items  map[types.UID]*v1alpha1.CleanupItem

	mu sync.Mutex
	// busy is when to send again after the API server answered the account with 429.
	busy time.Time
	// trouble is why items could not be deleted for now.
	trouble map[types.UID]trouble
	// unanswered are the objects whose DELETE got no answer and may still be carried out. throttled
	// are the objects whose DELETE an admission webhook answered with 429.
	unanswered, throttled map[types.UID]bool
	// unconfirmed is why the last attempt stopped sending: see confirm. The run's confirming guards
	// it.
	unconfirmed error
	// ctx ends with the run.
	ctx context.Context
	// unread is how often an object was read again: see find.
	unread int
	// err is an error that only a user can fix, such as a missing permission.
	err error
}

// trouble is a failure that another attempt may not have. It is the object's own, or concerns
// others as well: the API server is busy, or deletions are paused.
type trouble struct {
	own bool
	// held: a pause holds it, and no attempt was made.
	held bool
	err  error
	// tries are the attempts that were made.
	tries int
}

// decide submits the objects of a page until the outcome of each is known. A busy API server or a
// webhook that is away must not end the run, which would list everything again.
func (b *batch) decide(ctx context.Context) error {
	defer b.learn()
	most := untriedPatience
	if b.run.futile(b.order) {
		most = patience
	}
	backoff := loop.NewBackoffOf(minWait, maxWait)
	left := b.undecided()
	for idle, untried := 0, 0; len(left) > 0; {
		before, tries := len(left), b.tries()
		if err := b.submit(ctx, left); err != nil {
			return err
		}
		switch left = b.undecided(); {
		case len(left) == 0:
			return nil
		case b.unconfirmed != nil:
			if idle++; idle > patience || ends(b.unconfirmed) {
				return b.unconfirmed
			}
		case b.held(left):
			backoff.Reset()
			if b.postpone(ctx, left) {
				left = b.undecided()
				continue
			}
			if err := b.run.wait(ctx); err != nil {
				return err
			}
			continue
		case len(left) < before:
			idle, untried = 0, 0
			backoff.Reset()
		case b.tries() == tries && untried < most:
			untried++
		case b.tries() > tries && idle < patience:
			idle++
		default:
			return b.giveUp(ctx, left)
		}
		wait := max(backoff.Next(), min(maxWait, b.busy.Sub(b.run.c.options.Clock.Now())))
		if !loop.Pause(ctx, b.run.c.options.Clock, wait) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// submit makes one attempt at each of the objects, or none if it is not known whether the run may
// still delete: the run confirms that before the first attempt of each batch, and later when a
// DELETE needs it.
func (b *batch) submit(ctx context.Context, items []*v1alpha1.CleanupItem) error {
	b.unconfirmed = nil
	most := 1 // Later ones in their order: the least tried show first whether trouble is over.
	if b.ctx == nil {
		b.ctx, most = ctx, deletingAtOnce
		b.run.confirming <- struct{}{}
		b.unconfirmed = b.run.confirm(ctx)
		<-b.run.confirming
	}
	if b.unconfirmed != nil || !b.confirmed(ctx) {
		return context.Cause(ctx)
	}
	objects := make([]expire.Entry, 0, len(items))
	for _, item := range items {
		object, err := b.run.objectOf(item)
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	b.budget, b.busy = survey.NewBudget(), time.Time{}
	var all errgroup.Group
	all.SetLimit(most)
	for _, o := range objects {
		all.Go(func() error {
			b.note(b.run.c.options.Engine.Delete(ctx, o, b))
			return nil
		})
	}
	_ = all.Wait()
	if b.err != nil {
		return b.err
	}
	return context.Cause(ctx)
}

// errBusy: the API server answered the account with 429, so nothing was sent for this object.
var errBusy = fmt.Errorf("the API server is busy, and asked the service account to wait: %w", expire.ErrNoSlot)

// Do implements [expire.Work]: it deletes an object as the account of the run.
func (b *batch) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	if b.isBusy() {
		return deletion.Answer{Outcome: deletion.Held, Err: errBusy}
	}
	if !b.run.c.unchanged(b.run.policy) {
		// Suspended, edited or deleted: the live judgement, which follows a conflict, keeps the object.
		return deletion.Answer{Outcome: deletion.Conflict, Err: errChanged}
	}
	if !b.confirmed(ctx) {
		return deletion.Answer{Outcome: deletion.Held, Err: deletion.ErrHeld} // Nothing is sent: see decide.
	}
	result := b.run.account.Delete.Do(ctx, due)
	if deletion.HeldIn(ctx) {
		return deletion.Answer{Outcome: deletion.Held, Err: deletion.ErrHeld}
	}
	b.answered(due.UID, result)
	return result
}

// Order implements [expire.Work]: an earlier page goes first. Its run prepares the next one then.
func (b *batch) Order() int { return int(b.page) }

// note notes the outcome of an object.
func (b *batch) note(o expire.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	item := b.items[o.Object.UID]
	switch {
	case o.Result == expire.Deleted, o.Result == expire.Unconfirmed:
		item.Result, item.Message = v1alpha1.ItemDeleted, ""
	case o.Result == expire.AlreadyGone:
		item.Result, item.Message = v1alpha1.ItemGone, ""
	case item.Result == v1alpha1.ItemFailed, item.Result == v1alpha1.ItemUnknown: // See answered and fail.
	case o.Result == expire.Kept && b.unanswered[item.UID]:
		item.Result = v1alpha1.ItemUnknown
	case o.Result == expire.Kept:
		item.Result = v1alpha1.ItemKept
	case o.Result == expire.Conflict: // It changes all the time, and the run goes on without it.
		b.fail(item, o.Err)
	default:
		err := fmt.Errorf("%s %s/%s: %w", item.Kind, item.Namespace, item.Name, reasonOf(o))
		if o.Result == expire.Refused && b.err == nil {
			b.err = err
		}
		held := errors.Is(o.Err, expire.ErrHeldByPause)
		before, paused := b.trouble[item.UID], held || errors.Is(o.Err, expire.ErrPaused)
		own := o.Result == expire.Failed || paused || o.Result == expire.Throttled && b.throttled[item.UID]
		b.trouble[item.UID] = trouble{own, held, err, before.tries}
		if !paused && !errors.Is(o.Err, expire.ErrNoSlot) {
			b.trouble[item.UID] = trouble{own, held, err, before.tries + 1}
		}
	}
}

func reasonOf(o expire.Outcome) error {
	switch {
	case o.Err == nil:
		return fmt.Errorf("the deletion was not carried out: %s", o.Result)
	case o.Result == expire.Refused:
		return errors.Join(errForbidden, o.Err)
	default:
		return o.Err
	}
}

// keep notes why an object is kept. It has to match in consecutiveRuns again.
func (b *batch) keep(uid types.UID, why string) {
	b.run.survey.Matches.Forget(uid)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items[uid].Message = quote.ShortenTo(why, maxMessage)
}

// fail notes that an object that still exists could not be deleted, as far as is known.
func (b *batch) fail(item *v1alpha1.CleanupItem, err error) {
	item.Result, item.Message = v1alpha1.ItemFailed, quote.ShortenTo(err.Error(), maxMessage)
	if b.unanswered[item.UID] {
		item.Result = v1alpha1.ItemUnknown
	}
}

// maxMessage bounds the message of an item, as the schema does. A run decides again about objects
// with one of the other two messages.
const maxMessage, wasInterrupted, comesBack = 256, "the run was interrupted", "a pause holds it: the run comes back to it"

func itemOf(target *cleanup.Target, object *unstructured.Unstructured) v1alpha1.CleanupItem {
	return v1alpha1.CleanupItem{
		Group: target.Group, Version: target.Version, Kind: target.Kind, Resource: target.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}
