package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/tally"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// addTally wires the counting of PodTallies. It needs no engine: nothing is deleted.
func (c *controller) addTally(context.Context) (err error) {
	recorder := c.mgr.GetEventRecorder("curfew-tally")
	c.tally, err = tally.New(tally.Options{
		Tallies: c.platform.Platform.Tallies, Cluster: &tally.Client{Objects: c.dynamic, Watches: c.maker.typed, Partial: c.maker.partial, Confined: c.options.only()},
		ServerTime: c.serverTime,
		Event: func(object *v1alpha1.PodTally, eventType, reason, message string) {
			recorder.Eventf(object, nil, eventType, reason, "Count", "%s", message)
		},
		Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
	return err
}

// disowning is a deletion that releases Pods from their PodTallies.
// Where those are switched off, there is nothing to release them from.
func (c *controller) disowning(next action.Action) action.Action {
	if !c.options.on(policy.TriggerTally) {
		return next
	}
	return tally.Disowning{Next: next, Tally: func() *tally.Controller { return c.tally }}
}

// count counts Pods, or releases them where tallies are switched off. In listed namespaces it
// releases what PodTallies have left that are gone: others may be counted by another process.
func (c *controller) count(ctx context.Context) error {
	if c.options.on(policy.TriggerTally) {
		return c.tally.Run(ctx)
	}
	if c.options.only() {
		return c.tally.ReleaseLeft(ctx, c.options.onlyNamespaces)
	}
	return c.tally.Release(ctx)
}
