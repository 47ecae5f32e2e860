package tally

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/watch"
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
	// relistEvery is how often all Pods of a namespace are listed, to find changes that the watch missed
	// (S3).
	relistEvery = 30 * time.Minute
)

// follow keeps a namespace in step with the API server, and looks after its Pods, until ctx is done.
func (c *Controller) follow(ctx context.Context, w *watched) {
	c.all.Go(func() {
		for loop.Pause(ctx, c.options.Clock, chores) {
			if w.Following() && c.overdue(ctx, w.space) {
				w.Again()
			}
		}
	})
	w.Run(ctx)
}

// follower follows the Pods of a namespace. They are listed after the tallies were read: a list
// shows what another process did before its last write of a status (S7).
func (c *Controller) follower(w *watched) *watch.Follower {
	return watch.New(watch.Options{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return c.options.Cluster.Pods(ctx, w.namespace, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return c.options.Cluster.Watch(ctx, w.namespace, options)
		},
		Relist: relistEvery, Gather: func() time.Duration { return w.gathering(c.options.Clock.Now()) },
		Begin: func(ctx context.Context) error {
			err := c.load(ctx, w)
			w.beginList()
			return err
		},
		End: func(version string) {
			w.endList(version)
			c.leave(w)
		},
		Observe: func(_ context.Context, object runtime.Object) error {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return fmt.Errorf("got a %T where a Pod was asked for", object)
			}
			w.observe(pod, false)
			return nil
		},
		Deleted:  func(pod metav1.Object) { w.gone(pod.GetUID(), pod.GetResourceVersion()) },
		Bookmark: w.progress,
		Clock:    c.options.Clock, Log: c.log.WithValues("resource", podResource.Resource, "namespace", w.namespace),
	})
}

// load reads the tallies of a namespace. It keeps the state of known tallies. State of the others
// may not be older than their status (S7), so the Pods are listed next.
func (c *Controller) load(ctx context.Context, w *watched) error {
	objects, err := c.tallies(ctx, w.namespace)
	if err != nil {
		return err
	}
	counting, excess := split(objects)
	now, fresh := w.merge(counting)
	if err := c.takeOver(ctx, w.namespace, fresh); err != nil {
		return err
	}
	for _, t := range fresh {
		if t.edited != "" {
			c.edited(w.namespace, t, t.edited, "the counts may be wrong")
		}
	}
	w.setTallies(now)
	c.exclude(ctx, w.namespace, excess)
	return nil
}

// leave stops following a namespace that has had no tallies, and no Pods with the finalizer, for a
// while.
func (c *Controller) leave(w *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tallies) > 0 || len(w.pods) > 0 {
		w.empty = time.Time{}
		return
	}
	now := c.options.Clock.Now()
	if w.empty.IsZero() || now.Before(w.empty) {
		w.empty = now
	}
	if now.Sub(w.empty) < linger {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.Asked() {
		return // A tally was created just now.
	}
	delete(c.spaces, w.namespace)
	w.cancel()
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
func (c *Controller) exclude(ctx context.Context, namespace string, excess []*tally) {
	if len(excess) == 0 {
		return
	}
	now, err := c.options.ServerTime(ctx)
	var writes []request
	for _, t := range excess {
		status := t.status.DeepCopy()
		set(status, t.match.Generation, now, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTooManyTallies,
			Message: fmt.Sprintf("the namespace has %d older PodTallies, and no more may count", match.MaxPerNamespace),
		})
		if err == nil && !sameStatus(status, &t.status) {
			writes = append(writes, c.request("status", "excluding PodTally "+t.name, func(ctx context.Context) error {
				_, err := c.options.Cluster.WriteStatus(ctx, namespace, t.name, t.uid, t.version, status)
				return err
			}))
		}
	}
	if err := cmp.Or(err, c.send(ctx, writes)); err != nil {
		c.log.Info("PodTallies that are too many could not be reported", "reason", err.Error())
	}
}
