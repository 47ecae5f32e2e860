package tally

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	c.report(ctx, metav1.ConditionTrue)
	delay := loop.NewBackoffOf(retryFirst, recheck)
	for rest := 2; ; {
		wait := sweepAgain
		if rest == 0 {
			wait = sweepEvery
		}
		listed, err := c.listedPods(ctx)
		released := 0
		if err == nil {
			released, err = c.sweep(ctx, listed)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			wait = delay.Next()
			c.log.Info("Pods could not be released from PodTallies, which are switched off, trying again", "reason", err.Error())
		default:
			if rest > 0 || released > 0 {
				c.log.Info("PodTallies are switched off: no Pod has their finalizer", "released", released)
			}
			rest = max(rest-1, 0)
			c.report(ctx, metav1.ConditionFalse)
		}
		if !loop.Pause(ctx, c.options.Clock, wait) {
			return nil
		}
	}
}

// report has all PodTallies say that they are switched off.
func (c *Controller) report(ctx context.Context, releasing metav1.ConditionStatus) {
	if err := c.disabled(ctx, releasing); err != nil && ctx.Err() == nil {
		c.log.Info("PodTallies could not be reported as switched off", "reason", err.Error())
	}
}

// disabled has each PodTally say that it does not count, and whether its Pods are being released. A
// tally that has reported that they were is left as it is.
func (c *Controller) disabled(ctx context.Context, releasing metav1.ConditionStatus) error {
	objects, err := c.tallies(ctx, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	now, err := c.options.ServerTime(ctx)
	if err != nil {
		return fmt.Errorf("the API server's time: %w", err)
	}
	var errs []error
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
		_, err := c.overwrite(ctx, object, status)
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
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
		for _, one := range listed.uncounted {
			out[podUID{object.Namespace, one.uid}] = object.UID
		}
	}
	return out, nil
}

// sweep releases Pods with the finalizer. If tallies are switched off it releases all, and listed
// has the Pods that are as good as counted. Otherwise it releases the Pods of namespaces without a
// tally.
func (c *Controller) sweep(ctx context.Context, listed map[podUID]types.UID) (released int, err error) {
	failures, counted := &failures{}, map[string]bool{}
	list := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		page, err := c.options.Cluster.Metadata(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing Pods: %w", err)
		}
		return page, nil
	}
	_, err = watch.Each(ctx, metav1.ListOptions{}, list, func(page *metav1.PartialObjectMetadataList) error {
		var patches []func(context.Context) bool
		for i := range page.Items {
			of := &page.Items[i].ObjectMeta
			if !slices.Contains(of.Finalizers, wellknown.FinalizerTally) || listed == nil && c.space(of.Namespace) != nil {
				continue
			}
			if listed == nil {
				if skip, err := c.counts(ctx, counted, of.Namespace); err != nil {
					return err
				} else if skip {
					continue
				}
			}
			released++
			patches = append(patches, c.releaseOf(of, listed[podUID{of.Namespace, of.UID}], failures))
		}
		c.send(ctx, patches)
		return nil
	})
	return released, cmp.Or(err, failures.error())
}

// counts reports whether a live read shows a PodTally in a namespace, which is followed then: this
// process may not know the PodTally yet. Each namespace is read once.
func (c *Controller) counts(ctx context.Context, known map[string]bool, namespace string) (bool, error) {
	if out, ok := known[namespace]; ok {
		return out, nil
	}
	live, err := c.tallies(ctx, namespace)
	if err != nil {
		return false, err
	}
	counting, _ := split(live)
	if known[namespace] = len(counting) > 0; known[namespace] {
		c.watch(namespace)
	}
	return known[namespace], nil
}

// releaseOf releases one Pod, which is as good as counted by a tally or else "".
func (c *Controller) releaseOf(of *metav1.ObjectMeta, countedBy types.UID, failures *failures) func(context.Context) bool {
	namespace, name, body := of.Namespace, of.Name, releasing(of.UID, of.ResourceVersion)
	if countedBy != "" {
		body = counting(of.UID, countedBy)
	}
	return c.request("release", failures, "releasing Pod "+klog.KRef(namespace, name).String(), func(ctx context.Context) error {
		_, err := c.options.Cluster.Patch(ctx, namespace, name, body)
		return err
	})
}

// sweeps releases the Pods of namespaces without tallies, now and then.
func (c *Controller) sweeps(ctx context.Context) {
	for {
		if _, err := c.options.Tallies.In(metav1.NamespaceAll); err == nil {
			break
		}
		if !loop.Pause(ctx, c.options.Clock, retryFirst) {
			return
		}
	}
	delay := loop.NewBackoffOf(retryFirst, recheck)
	for {
		wait := sweepEvery
		released, err := c.sweep(ctx, nil)
		if ctx.Err() != nil {
			return
		}
		if released > 0 {
			c.log.Info("released Pods that no PodTally counts", "pods", released)
		}
		if err != nil {
			wait = delay.Next()
			c.log.Info("finalizers without a PodTally could not be looked for, trying again", "reason", err.Error())
		} else {
			delay.Reset()
		}
		if !loop.Pause(ctx, c.options.Clock, wait) {
			return
		}
	}
}
