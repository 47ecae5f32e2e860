package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
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
	r.pages++
	page := newPage(v1alpha1.PolicyReference{Name: r.policy.Name, UID: r.policy.UID}, r.info.ID, r.pages, r.info.DryRun, items)
	b.all.Go(func() {
		defer func() { <-b.free }()
		if err := r.batch(b.ctx, page); err != nil {
			b.cancel(err)
		}
	})
	return nil
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
		return r.ledger.store.writePage(ctx, page.name, &page.fields, true)
	}
	if err := r.ledger.announce(ctx, page); err != nil {
		return err
	}
	if err := r.newBatch(page).decide(ctx); err != nil {
		return err
	}
	return r.count(ctx, page)
}

// newBatch is what deletes the objects of a page.
func (r *run) newBatch(page *page) *batch {
	b := &batch{run: r, items: map[types.UID]*v1alpha1.CleanupItem{}, trouble: map[types.UID]trouble{}, unanswered: map[types.UID]bool{}, throttled: map[types.UID]bool{}}
	for i := range page.fields.Objects {
		item := &page.fields.Objects[i]
		b.order, b.items[item.UID] = append(b.order, item), item
	}
	return b
}

// count counts the outcomes on a page.
func (r *run) count(ctx context.Context, page *page) error {
	r.observe(page)
	return r.ledger.count(ctx, page, func(s *v1alpha1.CleanupPolicyStatus, unknown int64) {
		s.LastRun.Lost = plus(s.LastRun.Lost, unknown)
		message := fmt.Sprintf("DELETEs of report %s have no known outcome: up to %d deletions are in no count", page.name, s.LastRun.Lost)
		r.cur.set(s, v1alpha1.ConditionCountsExact, metav1.ConditionFalse, v1alpha1.ReasonNoAnswer, message)
	})
}

func (r *run) observe(page *page) {
	for i := range page.fields.Objects {
		r.c.metrics.objects.WithLabelValues(string(page.fields.Objects[i].Result)).Inc()
	}
}

// objectOf is an item as the engine takes it.
func (r *run) objectOf(item *v1alpha1.CleanupItem) (engine.Object, error) {
	gvr := schema.GroupVersionResource{Group: item.Group, Version: item.Version, Resource: item.Resource}
	kind, err := r.kind(gvr, item)
	return engine.Object{
		Kind: kind, Namespace: item.Namespace, Name: item.Name, UID: item.UID, ResourceVersion: item.ResourceVersion,
		// The engine's clock may be behind that of the API server, by which the run is due.
		Expiry: r.info.ScheduledTime.Add(-maxClockSkew), Source: r.policy.ID(), Propagation: r.policy.Spec.PropagationPolicy,
		// Other objects decide a lookup, and they may have changed since the list.
		Live: len(r.policy.Expressions.Lookups) > 0, Epoch: r.epoch,
	}, err
}

// maxClockSkew is far above what the engine tolerates.
const maxClockSkew = time.Minute

// kind registers a kind with the engine, once in a run.
func (r *run) kind(gvr schema.GroupVersionResource, item *v1alpha1.CleanupItem) (engine.Kind, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.kinds[gvr]; ok {
		return known, nil
	}
	kind, err := r.c.options.Engine.RegisterKind(engine.KindOptions{
		Type: action.Type{
			Resource: gvr, Kind: item.Kind, Namespaced: item.Namespace != "", Protobuf: builtIn(gvr.GroupVersion().WithKind(item.Kind)),
			Aggregated: !builtIn(gvr.GroupVersion().WithKind(item.Kind)),
		},
		Trigger: string(policy.TriggerCleanup), Scope: r.policy.ID(),
		Judge: func(context.Context, engine.Object) (engine.Judgement, error) {
			return engine.Judgement{}, errors.New("an object of a cleanup run is judged by the run: this is a bug")
		},
	})
	if err != nil {
		return 0, err
	}
	r.kinds[gvr] = kind
	return kind, nil
}

// forgetKinds lets the engine forget the kinds of the run.
func (r *run) forgetKinds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for gvr, kind := range r.kinds {
		r.c.options.Engine.ForgetKind(kind)
		delete(r.kinds, gvr)
	}
}
