package tally

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/loop"
)

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
	c.searches(ctx, metav1.NamespaceAll)
}

// ReleaseLeft releases what PodTallies have left in some namespaces, in which this process counts
// nothing. Where there is a PodTally, another process may count it. It returns when ctx is done.
func (c *Controller) ReleaseLeft(ctx context.Context, namespaces []string) error {
	c.searches(ctx, namespaces...)
	return nil
}

// searches releases, now and then, the Pods of namespaces without tallies.
func (c *Controller) searches(ctx context.Context, namespaces ...string) {
	delay := loop.NewBackoffOf(retryFirst, recheck)
	for {
		wait, released := sweepEvery, 0
		var errs []error
		for _, namespace := range namespaces {
			some, err := c.sweep(ctx, namespace, nil)
			released += some
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return
		}
		if released > 0 {
			c.log.Info("released Pods that no PodTally counts", "pods", released)
		}
		if err := errors.Join(errs...); err != nil {
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
