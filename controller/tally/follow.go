package tally

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/paging"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

const (
	// gather is how long a new tally waits for others: the Pods are listed once for all of them.
	gather = 500 * time.Millisecond
	// gatherMost bounds that wait where PodTallies come and go all the time: each time costs a list of
	// all Pods of the namespace. After calm, it is short again.
	gatherMost = 30 * time.Second
	calm       = time.Minute
	// linger is how long a namespace without tallies is watched: admission may add finalizers until
	// it has heard that the tally is gone.
	linger = 5 * time.Minute
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
		if err == nil {
			delay.Reset()
			err = c.events(ctx, w, at)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.log.Info("Pods of a namespace could not be followed, trying again", "namespace", w.namespace, "reason", err.Error())
			loop.Pause(ctx, c.options.Clock, delay.Next())
		case c.leave(w):
			return
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

// kept returns the tallies that need no new read. If another process has written one status, it may
// have taken over the others, too.
func (s *space) kept() map[types.UID]*tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[types.UID]*tally{}
	for _, t := range s.tallies {
		if t.overtaken {
			return nil
		}
		out[t.uid] = t
	}
	return out
}

// respec takes over the spec of a tally.
func (s *space) respec(t *tally, compiled *match.Tally, generation int64, invalid error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.match, t.generation, t.invalid = compiled, generation, invalid
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
	if c.options.Event != nil {
		object := &v1alpha1.PodTally{}
		object.Namespace, object.Name, object.UID = namespace, t.name, t.uid
		c.options.Event(object, corev1.EventTypeWarning, v1alpha1.ReasonStatusEdited, fmt.Sprintf("%s changed the status, which only Curfew may write: %s", editor, outcome))
	}
}
