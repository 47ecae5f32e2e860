package tally

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
)

// events follows the Pods until everything has to be listed again.
func (c *Controller) events(ctx context.Context, w *watched, at string) error {
	over := c.options.Clock.NewTimer(chores)
	defer over.Stop()
	for ctx.Err() == nil {
		events, err := c.options.Cluster.Watch(ctx, w.namespace, metav1.ListOptions{ResourceVersion: at, AllowWatchBookmarks: true})
		if err != nil {
			return fmt.Errorf("watching Pods: %w", err)
		}
		next, again, err := c.drain(ctx, w, at, events, over)
		events.Stop()
		if again || err != nil {
			return err
		}
		if next == at {
			return nil // A watch that brings nothing is not opened again: it might be too old.
		}
		at = next
	}
	return ctx.Err()
}

// drain follows one watch until it ends. It reports whether everything has to be listed again.
func (c *Controller) drain(ctx context.Context, w *watched, at string, events watch.Interface, chore clock.Timer) (next string, again bool, err error) {
	var relist <-chan time.Time
	defer func() {
		if relist != nil {
			w.again.Set() // The watch has ended before its time.
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return at, true, ctx.Err()
		case <-w.again:
			if relist == nil {
				relist = c.options.Clock.After(w.gathering(c.options.Clock.Now()))
			}
		case <-relist:
			relist = nil
			return at, true, nil
		case <-chore.C():
			if chore.Reset(chores); c.overdue(ctx, w.space) {
				return at, true, nil
			}
		case event, ok := <-events.ResultChan():
			if !ok {
				return at, false, nil
			}
			if event.Type == watch.Error {
				if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
					return at, true, err
				}
				return at, true, nil
			}
			pod, isPod := event.Object.(*corev1.Pod)
			if !isPod {
				return at, true, fmt.Errorf("got a %T where a Pod was asked for", event.Object)
			}
			switch at = pod.ResourceVersion; event.Type {
			case watch.Added, watch.Modified:
				w.observe(pod, false)
			case watch.Deleted:
				w.gone(pod.UID, at)
			case watch.Bookmark:
				w.progress(at)
			}
		}
	}
}

// gathering is how long to wait for other changes before everything is listed again.
func (w *watched) gathering(now time.Time) time.Duration {
	if since := now.Sub(w.gathered); since < 0 || since > calm {
		w.pace = loop.NewBackoffOf(gather, gatherMost)
	}
	w.gathered = now
	return w.pace.Next()
}
