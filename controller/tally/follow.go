package tally

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/paging"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

const (
	// gather is how long a new tally waits for others: the Pods are listed once for all of them.
	gather = 500 * time.Millisecond
	// maxGather bounds that wait where PodTallies come and go all the time: each time costs a list of
	// all Pods of the namespace. After calm, it is short again.
	maxGather = 30 * time.Second
	calm      = time.Minute
	// linger is how long a namespace without tallies is watched: admission may add finalizers until
	// it has heard that the tally is gone.
	linger = 5 * time.Minute
	// usefulAfter is how long a watch must last for the list before it to count as a success.
	usefulAfter = 10 * time.Second
)

var (
	// errListAgain: it is time to list everything again, and nothing has failed.
	errListAgain = errors.New("listing again")
	errNoEvents  = errors.New("the watch of Pods has ended without an event")
)

// follow keeps a namespace in step with the API server until ctx is done, or it has been without
// tallies for a while.
func (c *Controller) follow(ctx context.Context, w *watched) {
	delay := loop.NewBackoff()
	for ctx.Err() == nil {
		w.again.Clear()
		err := c.load(ctx, w)
		at := ""
		if err == nil {
			at, err = c.list(ctx, w.space)
		}
		listed := err == nil
		if listed {
			began := c.options.Clock.Now()
			if err = c.events(ctx, w, at); c.options.Clock.Since(began) >= usefulAfter {
				delay.Reset() // A watch that ends sooner shows that the list cannot be followed.
			}
		}
		switch {
		case ctx.Err() != nil:
		case listed && c.leave(w):
			return
		case !errors.Is(err, errListAgain):
			c.log.Info("Pods of a namespace could not be followed, trying again", "namespace", w.namespace, "reason", err.Error())
			loop.Pause(ctx, c.options.Clock, delay.Next())
		}
	}
}

// load reads the tallies of a namespace. It keeps the state of known tallies. State of the others
// may not be older than their status (S7), so the Pods are listed next.
func (c *Controller) load(ctx context.Context, w *watched) error {
	objects, err := c.tallies(ctx, w.namespace)
	if err != nil {
		return err
	}
	known := w.kept()
	var now, fresh []*tally
	counting, excess := split(objects)
	for _, one := range counting {
		object := one.object
		t := known[object.UID]
		if t == nil {
			t = &tally{
				name: object.Name, uid: object.UID, version: object.ResourceVersion, status: object.Status,
				ledger: readLedger(&object.Status), edited: object.Editor,
			}
			fresh = append(fresh, t)
		}
		w.respec(t, one.compiled, object.Generation, one.invalid)
		now = append(now, t)
	}
	if err := c.takeOver(ctx, w.namespace, fresh); err != nil {
		return err
	}
	for _, t := range fresh {
		if t.edited != "" {
			c.edited(w.namespace, t, t.edited, "the counts may be wrong")
		}
	}
	w.setTallies(now)
	c.forget(w.namespace, now)
	c.exclude(ctx, excess)
	return nil
}

// forget drops the work of tallies that do not exist any more. Their names are not used again.
func (c *Controller) forget(namespace string, now []*tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, t := range c.work {
		if namespaceOf(key) == namespace && t.name != "" && !slices.Contains(now, t) {
			delete(c.work, key)
		}
	}
}

// list lists the Pods of a namespace. It must not be served from a cache of the API server: what
// another process did before its last write of a status has to be seen (S7).
func (c *Controller) list(ctx context.Context, s *space) (string, error) {
	s.beginList()
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		return c.options.Cluster.Pods(ctx, s.namespace, options)
	}
	first, err := paging.Each(ctx, metav1.ListOptions{}, list, func(page *corev1.PodList) error {
		for i := range page.Items {
			s.observe(&page.Items[i], false)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("listing Pods: %w", err)
	}
	s.endList(first)
	return first, nil
}

// leave stops following a namespace that has had no tallies, and no Pods with the finalizer, for a
// while.
func (c *Controller) leave(w *watched) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tallies) > 0 || len(w.pods) > 0 {
		w.empty = time.Time{}
		return false
	}
	now := c.options.Clock.Now()
	if w.empty.IsZero() || now.Before(w.empty) {
		w.empty = now
	}
	if now.Sub(w.empty) < linger {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.again) > 0 {
		return false // A tally was created just now.
	}
	delete(c.spaces, w.namespace)
	for key := range c.work {
		if namespaceOf(key) == w.namespace {
			delete(c.work, key)
		}
	}
	w.cancel()
	return true
}

// edited reports a status that someone else has changed.
func (c *Controller) edited(namespace string, t *tally, editor, outcome string) {
	c.metrics.edited.Inc()
	c.log.Info("the status of a PodTally was changed by someone else", "tally", namespace+"/"+t.name, "by", editor, "outcome", outcome)
	c.warn(namespace, t, v1alpha1.ReasonStatusEdited, fmt.Sprintf("%s changed the status, which only Curfew may write: %s", editor, outcome))
}

func (c *Controller) warn(namespace string, t *tally, reason, message string) {
	if c.options.Event != nil {
		object := &v1alpha1.PodTally{}
		object.Namespace, object.Name, object.UID = namespace, t.name, t.uid
		c.options.Event(object, corev1.EventTypeWarning, reason, message)
	}
}

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
		switch {
		case err != nil:
			return err
		case again:
			return errListAgain
		case next == at:
			return errNoEvents // A watch that brings nothing is not opened again: it might be too old.
		}
		at = next
	}
	return ctx.Err()
}

// drain follows one watch until it ends. It reports whether everything has to be listed again.
func (c *Controller) drain(
	ctx context.Context, w *watched, at string, events watch.Interface, chore clock.Timer,
) (next string, again bool, err error) {
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
				return at, true, apierrors.FromObject(event.Object)
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
		w.pace = loop.NewBackoffOf(gather, maxGather)
	}
	w.gathered = now
	return w.pace.Next()
}

// exclude has tallies that are too many say so. What their statuses list is counted once they are
// among the oldest.
func (c *Controller) exclude(ctx context.Context, excess []*read) {
	failures := &failures{}
	var writes []func(context.Context) bool
	for _, one := range excess {
		status := one.object.Status.DeepCopy()
		if excluded(status) {
			continue
		}
		writes = append(writes, c.request("status", failures, "excluding PodTally "+one.object.Name, func(ctx context.Context) error {
			now, err := c.options.ServerTime(ctx)
			if err != nil {
				return err
			}
			set(status, one.object.Generation, now, metav1.Condition{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTooManyTallies,
				Message: fmt.Sprintf("the namespace has %d older PodTallies, and no more may count", match.MaxPerNamespace),
			})
			_, err = c.overwrite(ctx, one.object, status)
			return err
		}))
	}
	c.send(ctx, writes)
	if err := failures.error(); err != nil {
		c.log.Info("PodTallies that are too many could not be reported", "reason", err.Error())
	}
}
