package tally

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const (
	// sweepEvery is how often all Pods are listed to find finalizers of tallies that do not exist any
	// more: deleted while Curfew was not running, or right before a Pod was created.
	sweepEvery = time.Hour
	// sweepAgain is the wait for a second look after tallies were switched off: admission adds
	// finalizers until it knows of that.
	sweepAgain = 5 * time.Minute
)

// Release removes the finalizers of all tallies: they are switched off. It looks again now and
// then, since a process that does not know of that, or the author of a Pod, may add more. It
// returns when ctx is done.
func (c *Controller) Release(ctx context.Context) error {
	c.disable(ctx, metav1.ConditionTrue)
	looks := 0
	c.repeat(ctx, "Pods could not be released from PodTallies, which are switched off, trying again", func(ctx context.Context) (time.Duration, error) {
		listed, err := c.listedPods(ctx)
		if err != nil {
			return 0, err
		}
		released, err := c.sweep(ctx, listed)
		if err != nil {
			return 0, err
		}
		looks++
		if released > 0 || looks <= 2 {
			c.log.Info("PodTallies are switched off: no Pod has their finalizer", "released", released)
		}
		c.disable(ctx, metav1.ConditionFalse)
		if looks <= 2 {
			return sweepAgain, nil
		}
		return sweepEvery, nil
	})
	return nil
}

// repeat does something until ctx is done: again after the time that it returns, or after a backoff
// if it fails.
func (c *Controller) repeat(ctx context.Context, failed string, do func(context.Context) (time.Duration, error)) {
	worker := loop.Worker{
		Clock: c.options.Clock, Signal: loop.NewSignal(), Backoff: loop.NewBackoffOf(retryFirst, recheck), Do: do,
		Failed: func(err error, _ time.Duration) { c.log.Info(failed, "reason", err.Error()) },
	}
	worker.Signal.Set()
	worker.Run(ctx)
}

// disable has each PodTally say that it does not count, and whether its Pods are being released. A
// tally that has reported that they were is left as it is.
func (c *Controller) disable(ctx context.Context, releasing metav1.ConditionStatus) {
	objects, err := c.tallies(ctx, metav1.NamespaceAll)
	now, unknown := c.options.ServerTime(ctx)
	errs := []error{err, unknown}
	if unknown != nil {
		objects = nil
	}
	for _, object := range objects {
		status := object.Status.DeepCopy()
		ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTallyDisabled}
		ready.Message = "Curfew runs without the trigger tally: nothing is counted"
		release := metav1.Condition{Type: v1alpha1.ConditionReleasing, Status: releasing, Reason: v1alpha1.ReasonReleased}
		release.Message = "no Pod has the finalizer"
		if releasing == metav1.ConditionTrue {
			if meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionReleasing) {
				continue
			}
			release.Reason, release.Message = v1alpha1.ReasonTallyDisabled, "the finalizers of its Pods are being removed"
		}
		if set(status, object.Generation, now, ready, release); sameStatus(status, &object.Status) {
			continue
		}
		_, err := c.options.Cluster.WriteStatus(ctx, object.Namespace, object.Name, object.UID, object.ResourceVersion, status)
		errs = append(errs, client.IgnoreNotFound(err))
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		c.log.Info("PodTallies could not be reported as switched off", "reason", err.Error())
	}
}

// podUID names a Pod by its namespace, too: the status of a tally decides about no other's Pods.
type podUID struct {
	namespace string
	uid       types.UID
}

// listedPods are the Pods that a status lists, and which tally counts them once it is on again.
func (c *Controller) listedPods(ctx context.Context) (map[podUID]types.UID, error) {
	objects, err := c.tallies(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	out := map[podUID]types.UID{}
	for _, object := range objects {
		listed := readLedger(&object.Status)
		for _, entry := range listed.uncounted {
			out[podUID{object.Namespace, entry.uid}] = object.UID
		}
	}
	return out, nil
}

// sweep releases Pods with the finalizer. If tallies are switched off it releases all, and listed
// has the Pods that are as good as counted. Otherwise it releases the Pods of namespaces without a
// tally.
func (c *Controller) sweep(ctx context.Context, listed map[podUID]types.UID) (released int, err error) {
	counted, failure := map[string]bool{}, error(nil)
	_, err = watch.Each(ctx, metav1.ListOptions{}, c.options.Cluster.Metadata, func(page *metav1.PartialObjectMetadataList) error {
		var releases []request
		for i := range page.Items {
			pod := &page.Items[i].ObjectMeta
			if !slices.Contains(pod.Finalizers, wellknown.FinalizerTally) {
				continue
			}
			if listed == nil {
				if skip, err := c.counts(ctx, counted, pod.Namespace); err != nil {
					return err
				} else if skip {
					continue
				}
			}
			releases = append(releases, c.release(pod, listed[podUID{pod.Namespace, pod.UID}]))
		}
		released += len(releases)
		err := c.send(ctx, releases)
		if overloaded(err) {
			return err
		}
		failure = cmp.Or(failure, err)
		return nil
	})
	return released, cmp.Or(err, failure)
}

// counts reports whether a namespace is watched, or a live read shows a PodTally in it, which is
// followed then: this process may not know the PodTally yet. Each namespace is read once.
func (c *Controller) counts(ctx context.Context, known map[string]bool, namespace string) (bool, error) {
	if c.space(namespace) != nil {
		return true, nil
	}
	if counts, ok := known[namespace]; ok {
		return counts, nil
	}
	live, err := c.tallies(ctx, namespace)
	if err != nil {
		return false, err
	}
	if known[namespace] = len(live) > 0; known[namespace] {
		c.watch(namespace)
	}
	return known[namespace], nil
}

// release releases one Pod, which is as good as counted by a tally or else "".
func (c *Controller) release(pod *metav1.ObjectMeta, countedBy types.UID) request {
	namespace, name, body := pod.Namespace, pod.Name, releasing(pod.UID, pod.ResourceVersion)
	if countedBy != "" {
		body = counting(pod.UID, countedBy)
	}
	return c.request("release", "releasing Pod "+klog.KRef(namespace, name).String(), func(ctx context.Context) error {
		_, err := c.options.Cluster.Patch(ctx, namespace, name, body)
		return err
	})
}

// sweeps releases the Pods of namespaces without tallies, now and then.
func (c *Controller) sweeps(ctx context.Context) {
	c.repeat(ctx, "finalizers without a PodTally could not be looked for, trying again", func(ctx context.Context) (time.Duration, error) {
		if _, err := c.options.Tallies.In(metav1.NamespaceAll); err != nil {
			return retryFirst, nil // The namespaces that are to be watched are not known yet.
		}
		released, err := c.sweep(ctx, nil)
		if released > 0 {
			c.log.Info("released Pods that no PodTally counts", "pods", released)
		}
		return sweepEvery, err
	})
}
