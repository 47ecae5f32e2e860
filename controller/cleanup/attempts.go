package cleanup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/v1alpha1"
)

const (
	// waitLeast and waitMost bound the wait between two attempts at a page.
	waitLeast, waitMost = time.Second, 30 * time.Second
	// patience is how many attempts in a row may decide nothing: they take a minute and a half.
	patience = 7
)

// decide submits the objects of a page until the outcome of each is known. A busy API server or a
// webhook that is away must not end the run, which would list everything again.
func (b *batch) decide(ctx context.Context) error {
	backoff := loop.NewBackoffOf(waitLeast, waitMost)
	left := b.undecided()
	for idle := 0; len(left) > 0; {
		if err := b.submit(ctx, left); err != nil {
			return err
		}
		before := len(left)
		switch left = b.undecided(); {
		case len(left) == 0:
			return nil
		case b.held(left):
			backoff.Reset()
			if err := b.wait(ctx); err != nil {
				return err
			}
			continue
		case len(left) < before:
			idle = 0
			backoff.Reset()
		case idle < patience:
			idle++
		default:
			return b.giveUp(ctx, left)
		}
		if !loop.Pause(ctx, b.run.c.options.Clock, backoff.Next()) {
			return context.Cause(ctx)
		}
	}
	return nil
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
	return b.check(ctx, func(item *v1alpha1.CleanupItem) { b.fail(item, b.trouble[item.UID].err) })
}

// check reads the objects that are not decided, and deletes none. What is gone counts as such, and
// what cannot be known as unknown; exists decides the others.
func (b *batch) check(ctx context.Context, exists func(*v1alpha1.CleanupItem)) error {
	for _, item := range b.undecided() {
		object, _, err := b.run.look(ctx, item)
		if apierrors.IsNotFound(err) {
			object, err = b.run.lookElsewhere(ctx, item, err)
		}
		switch {
		case errors.Is(err, errNotServed):
			item.Result, item.Message = v1alpha1.ItemUnknown, errNotServed.Error()
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

// undecided are the items without an outcome, those first that were tried least: while deletions
// are paused, only a few of them are tried.
func (b *batch) undecided() []*v1alpha1.CleanupItem {
	left := slices.DeleteFunc(slices.Clone(b.order), decided)
	slices.SortStableFunc(left, func(one, other *v1alpha1.CleanupItem) int {
		return cmp.Compare(b.trouble[one.UID].tries, b.trouble[other.UID].tries)
	})
	return left
}

// submit makes one attempt at each of the objects.
func (b *batch) submit(ctx context.Context, items []*v1alpha1.CleanupItem) error {
	objects := make([]engine.Object, 0, len(items))
	for _, item := range items {
		object, err := b.run.objectOf(item)
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	b.left, b.done = len(objects), make(chan struct{})
	b.run.c.options.Engine.Submit(ctx, b, objects...)
	<-b.done // The engine gives back what it holds when ctx ends.
	if b.err != nil {
		return b.err
	}
	return context.Cause(ctx)
}
