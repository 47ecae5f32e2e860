package main

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientdiscovery "k8s.io/client-go/discovery"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/backfill"
	"curfew.dev/curfew/controller/cleanup"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/controller/stop"
	"curfew.dev/curfew/controller/tally"
	"curfew.dev/curfew/policy"
	match "curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// registration is how the controller runs one trigger of [judging.Triggers]: the action that is
// taken on a due object, and how objects are found.
type registration struct {
	// action makes the action that is taken on a due object. Nil if the trigger never takes one.
	action func(c *controller) (expire.Trigger, error)
	// judge judges objects of kinds with a profile. One watch of a kind serves all triggers. Nil if
	// the trigger only uses find.
	judge feed.TriggerOf
	// find finds objects until ctx is done: by feeds of its own, applied to c.feeds, or by runs that
	// call c.engine.Delete. Nil if the trigger only uses judge.
	find func(ctx context.Context, c *controller) error
}

// registered has each trigger by its name. --enable chooses among them.
var registered = map[policy.Trigger]registration{
	policy.TriggerTTL:      {action: deletes, judge: feed.TTLs},
	policy.TriggerLabel:    {action: deletes, find: func(ctx context.Context, c *controller) error { return c.labels.Run(ctx) }},
	policy.TriggerCleanup:  {action: cleans, find: func(ctx context.Context, c *controller) error { return c.cleanup.Run(ctx) }},
	policy.TriggerDeadline: {action: stops, judge: feed.Deadlines},
	policy.TriggerTally:    {}, // See count: it has to run while it is switched off, too.
}

// deletes is the action of triggers that delete the object.
func deletes(c *controller) (expire.Trigger, error) {
	return expire.Trigger{Action: c.deletion, Deletes: true}, nil
}

// stops is the action of triggers that stop the object.
func stops(c *controller) (expire.Trigger, error) {
	partial, err := metadata.NewForConfig(c.watches)
	if err != nil {
		return expire.Trigger{}, fmt.Errorf("client of the API server: %w", err)
	}
	action := stop.New(stop.Options{
		Objects: c.objects, Metadata: partial, Delete: c.deletion, Clock: c.clock, ServerTime: c.serverTime, Log: c.log,
		Registerer: metrics.Registry,
		Marked:     c.notices.failed,
		Profile:    c.platform.Platform.Profile,
	})
	return expire.Trigger{Action: action, Payload: true}, nil
}

// cleans is the trigger of cleanup policies, whose runs delete with the rights of their accounts.
func cleans(*controller) (expire.Trigger, error) {
	return expire.Trigger{Deletes: true}, nil
}

// actions are the triggers that are switched on, as the engine takes them.
func (c *controller) actions() ([]expire.Trigger, error) {
	var out []expire.Trigger
	for _, name := range c.options.triggers(true) {
		if action := registered[name].action; action != nil {
			trigger, err := action(c)
			if err != nil {
				return nil, fmt.Errorf("trigger %s: %w", name, err)
			}
			trigger.Name = string(name)
			out = append(out, trigger)
		}
	}
	return out, nil
}

// judges are the triggers that are switched on, as they apply to a kind with a profile.
func (o *options) judges(profile *expression.Profile) []*feed.Trigger {
	var out []*feed.Trigger
	for _, name := range o.triggers(true) {
		if judge := registered[name].judge; judge != nil {
			if trigger := judge(profile); trigger != nil {
				out = append(out, trigger)
			}
		}
	}
	return out
}

// finders returns the find functions of the triggers that are switched on.
func (c *controller) finders() []func(context.Context) error {
	var out []func(context.Context) error
	for _, name := range c.options.triggers(true) {
		if find := registered[name].find; find != nil {
			out = append(out, func(ctx context.Context) error { return find(ctx, c) })
		}
	}
	return out
}

// addBackfill wires policies and kinds → default labels of existing objects.
func (c *controller) addBackfill(context.Context) error {
	if c.labels == nil {
		return nil
	}
	authorization, err := authorizationclient.NewForConfig(c.watches)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	c.backfill = backfill.New(backfill.Options{
		Places: c.labels.Places, Metadata: c.maker.partial, Whole: c.objects, Cached: c.platform, Live: c.platform.Live(),
		Lacks:      permission.Reviews{Access: authorization.SelfSubjectAccessReviews()}.LacksIn,
		ServerTime: c.serverTime, Failed: c.policies.Failed, Protect: c.options.protected(), DryRun: c.options.dryRun,
		PerMinute: expire.DefaultBackfillPerMinute, Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
	return nil
}

// addCleanup wires cleanup policies → engine.
func (c *controller) addCleanup(context.Context) error {
	if !c.options.on(policy.TriggerCleanup) {
		return nil
	}
	reports, err := resource.ParseQuantity(c.options.cleanupReportBytes)
	if err != nil {
		return fmt.Errorf("--cleanup-report-bytes=%s: %w", c.options.cleanupReportBytes, err)
	}
	recorder := c.mgr.GetEventRecorder("curfew-cleanup")
	c.cleanup = cleanup.New(cleanup.Options{
		Objects: c.objects, Account: cleanup.NewAccounts(c.config, types.NamespacedName{Namespace: c.options.namespace, Name: cleanupAccount},
			c.disowning, c.clock).Of, Engine: c.engine,
		Served: c.served, Cached: c.platform, Live: c.platform.Live(),
		Namespaces: func() ([]*resolution.NamespacePolicy, error) { return c.namespaces.All(), nil },
		Protect:    c.options.protected(), DryRun: c.options.dryRun,
		MinInterval: c.options.cleanupMinInterval, MaxPolicies: c.options.cleanupMaxPolicies, RequireApproval: c.options.requireApproval,
		ReportBytes: reports.Value(),
		Held:        func(ctx context.Context, scope string) bool { return c.pauses.Holds(ctx, policy.TriggerCleanup, scope) },
		Unread:      func() string { view, _ := c.pauses.View(); return view.Unread }, // Held has waited for it.
		ServerTime:  c.serverTime,
		Event: func(object *unstructured.Unstructured, eventType, reason, message string) {
			recorder.Eventf(object, nil, eventType, reason, "Cleanup", "%s", message)
		},
		Clock: c.clock, Log: c.log, Registerer: metrics.Registry, PolicyNames: c.options.metricsPolicyNames,
	})
	return nil
}

// served are the resources that cleanup policies can match. The error may be [match.SilentGroups].
func (c *controller) served(ctx context.Context) ([]match.Resource, error) {
	groups, lists, err := clientdiscovery.ServerGroupsAndResourcesWithContext(ctx,
		clientdiscovery.ToDiscoveryInterfaceWithContext(c.typed.Discovery()))
	if failed, ok := clientdiscovery.GroupDiscoveryFailedErrorGroups(err); ok {
		err = silent(failed)
	} else if err != nil {
		return nil, err
	}
	return match.Resources(groups, lists), err
}

// silent are the groups with a version that does not answer.
func silent(failed map[schema.GroupVersion]error) match.SilentGroups {
	var out match.SilentGroups
	for version := range failed {
		out = append(out, version.Group)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// addTally wires the counting of PodTallies. It needs no engine: nothing is deleted.
func (c *controller) addTally(context.Context) error {
	recorder := c.mgr.GetEventRecorder("curfew-tally")
	c.tally = tally.New(tally.Options{
		Tallies: c.platform.Platform.Tallies, Cluster: &tally.Client{Objects: c.dynamic, Watches: c.maker.typed, Partial: c.maker.partial},
		ServerTime: c.serverTime,
		Event: func(object *v1alpha1.PodTally, eventType, reason, message string) {
			recorder.Eventf(object, nil, eventType, reason, "Count", "%s", message)
		},
		Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
	return nil
}

// disowning is a deletion that releases Pods from their PodTallies.
// Where those are switched off, there is nothing to release them from.
func (c *controller) disowning(next deletion.Action) deletion.Action {
	if !c.options.on(policy.TriggerTally) {
		return next
	}
	return tally.Disowning{Next: next, Tally: func() *tally.Controller { return c.tally }}
}

// count counts Pods, or releases them where tallies are switched off.
func (c *controller) count(ctx context.Context) error {
	if c.options.on(policy.TriggerTally) {
		return c.tally.Run(ctx)
	}
	return c.tally.Release(ctx)
}
