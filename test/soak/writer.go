package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// writer is the second writer: it changes objects while they expire.
type writer struct {
	world *world
	// later bounds by how much an expiry is put off.
	later time.Duration
	told  *announcements
	seed  uint64
	done  atomic.Int64
	// byUID are the objects that can be struck, strikes the strikes under way.
	byUID   map[string]*object
	strikes sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	errs   []error
}

// run carries out what was planned, each at its time, and returns when all is done. It returns
// unexpected errors.
func (w *writer) run(ctx context.Context, fleet []*object) error {
	var planned []*object
	for _, o := range fleet {
		if o.act != nothing {
			planned = append(planned, o)
		}
	}
	slices.SortFunc(planned, func(a, b *object) int { return a.begins().Compare(b.begins()) })
	var group sync.WaitGroup
	// As many at a time as leave an API server that comes back the chance to do so.
	free := make(chan struct{}, loaders)
	for i, o := range planned {
		pause(ctx, time.Until(o.begins()))
		if ctx.Err() != nil {
			break
		}
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			err := w.carryOut(ctx, o, newRandom(w.seed, uint64(i)))
			w.done.Add(1)
			// Curfew may have been faster, which is the point.
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				w.mu.Lock()
				w.errs = append(w.errs, fmt.Errorf("%s %s/%s: %w", o.kind, o.namespace, o.name, err))
				w.mu.Unlock()
			}
		})
	}
	group.Wait()
	return errors.Join(w.errs...)
}

// begins is when its act begins.
func (o *object) begins() time.Time {
	switch o.act {
	case lower, unprotect, account:
		return o.due // only they make it due
	case release:
		return o.due.Add(5 * time.Second)
	default:
		return o.due.Add(o.at)
	}
}

func annotate(key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

// setTTL is a patch that sets the TTL where it stands, or takes it away.
func (o *object) setTTL(ttl any) map[string]any {
	if o.inField() {
		field := "ttlSecondsAfterFinished"
		if o.kind == batches {
			field = "ttlSeconds"
		}
		return map[string]any{"spec": map[string]any{field: ttl}}
	}
	if d, ok := ttl.(int64); ok {
		ttl = fmt.Sprint(d)
	}
	return annotate(o.key(), ttl)
}

func whole(d time.Duration) int64 { return int64(d / time.Second) }

func (w *writer) carryOut(ctx context.Context, o *object, r *rand.Rand) error {
	switch o.act {
	case touch:
		return w.world.patch(ctx, o, map[string]any{"metadata": map[string]any{"labels": map[string]any{"touched": "true"}}})
	case raise:
		return w.world.patch(ctx, o, o.setTTL(whole(far)))
	case shift:
		return w.world.patch(ctx, o, o.setTTL(whole(o.ttl)+1+r.Int64N(whole(w.later))))
	case lower:
		return w.world.patch(ctx, o, o.setTTL(int64(r.IntN(2))))
	case takeAway:
		return w.world.patch(ctx, o, o.setTTL(nil))
	case protect:
		return w.world.patch(ctx, o, annotate(prefix+"protect", "true"))
	case unprotect:
		return w.world.patch(ctx, o, annotate(prefix+"protect", nil))
	case account, release:
		w.told.add("finalizer", o.uid)
		return w.world.patch(ctx, o, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	case recreate:
		return w.recreate(ctx, o, r)
	default:
		return fmt.Errorf("act %d is unknown", o.act)
	}
}

// recreate lets another object take the name. Half of them finish as well, and have an expiry of
// their own.
func (w *writer) recreate(ctx context.Context, o *object, r *rand.Rand) error {
	w.told.add("delete", o.uid)
	if err := w.world.delete(ctx, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	next := *o
	next.act = nothing // no finalizer
	if next.explicit() {
		next.ttl = time.Duration(1+r.Int64N(whole(w.later))) * time.Second
	}
	if err := w.world.create(ctx, &next); err != nil {
		return err
	}
	if r.IntN(2) == 0 {
		return nil
	}
	return w.world.finish(ctx, &next, time.Now())
}

// strike changes an object soon, from the side, whatever was planned for it. The DELETE webhook
// asks for it while it has a DELETE of this object in its hands, so that the change comes between
// Curfew's judgement and the deletion, or between two attempts.
func (w *writer) strike(uid string) {
	o := w.byUID[uid]
	if o == nil {
		return // one that took the name of another
	}
	w.mu.Lock()
	blow := pick(w.random, blows)
	later := 1 + w.random.Int64N(whole(w.later))
	w.mu.Unlock()
	w.strikes.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), webhookTimeout)
		defer cancel()
		patch := annotate(prefix+"protect", "true")
		switch blow {
		case touch:
			patch = map[string]any{"metadata": map[string]any{"labels": map[string]any{"touched": "true"}}}
		case raise:
			patch = o.setTTL(whole(far))
		case shift:
			patch = o.setTTL(whole(time.Since(o.created)) + later)
		}
		if w.world.patch(ctx, o, patch) == nil { // the API server may be away, or the object
			w.done.Add(1)
		}
	})
}

var blows = []share[act]{{touch, 40}, {shift, 30}, {raise, 15}, {protect, 15}}
