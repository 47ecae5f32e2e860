package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// batch is what the engine reports to. It implements engine.Run.
type batch struct {
	run *run
	// order are the items of the page, and items the same by UID.
	order []*v1alpha1.CleanupItem
	// budget is what all live judgements of one attempt may cost.
	budget *expression.Budget
	items  map[types.UID]*v1alpha1.CleanupItem

	mu sync.Mutex
	// left are submitted and not reported yet. When there are none, done is closed.
	left int
	done chan struct{}
	// trouble is why items could not be deleted for now.
	trouble map[types.UID]trouble
	// unanswered are the objects whose DELETE got no answer and may still be carried out. throttled
	// are the objects whose DELETE an admission webhook answered with 429.
	unanswered, throttled map[types.UID]bool
	// unconfirmed is why the last attempt stopped sending: see confirm. The run's confirming guards
	// it.
	unconfirmed error
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

// Judge implements engine.Run: it reads an object live, as the account of the run.
func (b *batch) Judge(ctx context.Context, o engine.Object) (engine.Judgement, error) {
	b.mu.Lock()
	item := *b.items[o.UID]
	b.mu.Unlock()
	object, gone, err := b.run.look(ctx, &item)
	if object == nil {
		return gone, err
	}
	if !b.run.c.unchanged(b.run.policy) {
		b.keep(o.UID, errChanged.Error())
		return engine.Judgement{Verdict: engine.Keep}, nil
	}
	place := &turn{of: b.run.c.judging, namespace: cmp.Or(b.run.policy.Namespace, b.run.policy.ID())}
	defer place.end()
	decision, err := b.run.survey.JudgeLive(ctx, targetOf(&item), object, b.run.c.options.Live, b.budget, place.judging)
	if err != nil {
		return engine.Judgement{}, err
	}
	newest := b.run.survey.Newest
	switch {
	case decision.Verdict == cleanup.NoMatch:
		b.keep(o.UID, "it does not match any more")
	case decision.Reason == cleanup.SkipEvaluation && b.budget.Spent():
		b.mu.Lock()
		b.fail(b.items[o.UID], errors.New(decision.Message)) // Others spent it, so it still matches.
		b.mu.Unlock()
	case decision.Verdict == cleanup.Skip:
		b.keep(o.UID, decision.Message)
	case newest != nil && newest.Keeps(decision.Group, decision.Time, o.UID):
		b.keep(o.UID, "it is one of the newest")
	default:
		o.ResourceVersion = object.GetResourceVersion()
		return engine.Judgement{Verdict: engine.Track, Object: o, Finalizers: object.GetFinalizers()}, nil
	}
	return engine.Judgement{Verdict: engine.Keep}, nil
}

// judging is away for a live judgement. Without a turn in time nothing is wrong with its object.
func (u *turn) judging(ctx context.Context, f func() error) error {
	u.end()
	if err := cmp.Or(f(), ctx.Err()); err != nil {
		return err
	}
	if err := u.take(ctx); err != nil {
		return fmt.Errorf("%w: %w", engine.ErrNoSlot, err)
	}
	return nil
}

// keep notes why an object is kept. It has to match in consecutiveRuns again.
func (b *batch) keep(uid types.UID, why string) {
	b.run.survey.Matches.Forget(uid)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items[uid].Message = policy.ShortenTo(why, maxMessage)
}

// fail notes that an object that still exists could not be deleted, as far as is known.
func (b *batch) fail(item *v1alpha1.CleanupItem, err error) {
	item.Result, item.Message = v1alpha1.ItemFailed, policy.ShortenTo(err.Error(), maxMessage)
	if b.unanswered[item.UID] {
		item.Result = v1alpha1.ItemUnknown
	}
}

// maxMessage bounds the message of an item, as the schema does.
const maxMessage = 256

// answered notes an answer that no retry will change: something but the rights of the account
// refuses the deletion, such as an admission webhook. It also notes that none came.
func (b *batch) answered(uid types.UID, result action.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	webhook := result.Origin == action.FromAdmission
	switch {
	case result.Outcome == action.Failed && (result.Code == 0 || result.Code == http.StatusGatewayTimeout):
		b.unanswered[uid] = true
	case result.Outcome == action.Throttled:
		b.throttled[uid] = webhook
	case result.Outcome == action.Refused && (webhook || result.Code != http.StatusForbidden && result.Code != http.StatusUnauthorized):
		b.fail(b.items[uid], result.Err)
	}
}

// Report implements engine.Run.
func (b *batch) Report(o engine.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	item := b.items[o.Object.UID]
	switch {
	case o.Result == engine.Deleted, o.Result == engine.Unconfirmed:
		item.Result, item.Message = v1alpha1.ItemDeleted, ""
	case o.Result == engine.AlreadyGone:
		item.Result, item.Message = v1alpha1.ItemGone, ""
	case item.Result == v1alpha1.ItemFailed, item.Result == v1alpha1.ItemUnknown: // See answered and fail.
	case o.Result == engine.Kept && b.unanswered[item.UID]:
		item.Result = v1alpha1.ItemUnknown
	case o.Result == engine.Kept:
		item.Result = v1alpha1.ItemKept
	case o.Result == engine.Conflict: // It changes all the time, and the run goes on without it.
		b.fail(item, o.Err)
	default:
		err := fmt.Errorf("%s %s/%s: %w", item.Kind, item.Namespace, item.Name, reasonOf(o))
		if o.Result == engine.Refused && b.err == nil {
			b.err = err
		}
		held := errors.Is(o.Err, engine.ErrHeldByPause)
		before, paused := b.trouble[item.UID], held || errors.Is(o.Err, engine.ErrPaused)
		own := o.Result == engine.Failed || paused || o.Result == engine.Throttled && b.throttled[item.UID]
		b.trouble[item.UID] = trouble{own, held, err, before.tries}
		if !paused && !errors.Is(o.Err, engine.ErrNoSlot) {
			b.trouble[item.UID] = trouble{own, held, err, before.tries + 1}
		}
	}
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

func reasonOf(o engine.Outcome) error {
	switch {
	case o.Err == nil:
		return fmt.Errorf("the deletion was not carried out: %s", o.Result)
	case o.Result == engine.Refused:
		return errors.Join(errForbidden, o.Err)
	default:
		return o.Err
	}
}

// builtIn reports whether the API server itself serves a kind.
func builtIn(kind schema.GroupVersionKind) bool { return scheme.Scheme.Recognizes(kind) }

func isForbidden(err error) bool { return apierrors.IsForbidden(err) || errors.Is(err, errForbidden) }

var errForbidden = survey.ErrForbidden
