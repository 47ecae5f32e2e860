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
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/cleanup"
	"curfew.dev/curfew/controller/discovery/served"
	"curfew.dev/curfew/policy"
	match "curfew.dev/curfew/policy/cleanup"
)

// cleanupAccount is the ServiceAccount that ClusterCleanupPolicies without one of their own delete
// as. manifests/rbac names it.
const cleanupAccount = "curfew-cleanup"

// addCleanup wires cleanup policies → engine.
func (c *controller) addCleanup(context.Context) (err error) {
	if !c.options.on(policy.TriggerCleanup) {
		return nil
	}
	reports, err := resource.ParseQuantity(c.options.cleanupReportBytes)
	if err != nil {
		return fmt.Errorf("--cleanup-report-bytes=%s: %w", c.options.cleanupReportBytes, err)
	}
	recorder := c.mgr.GetEventRecorder("curfew-cleanup")
	c.cleanup, err = cleanup.New(cleanup.Options{
		Objects: c.objects, Account: cleanup.NewAccounts(c.config, types.NamespacedName{Namespace: c.options.namespace, Name: cleanupAccount}, c.disowning, c.clock).Of, Engine: c.engine,
		Served: c.served, Cached: c.platform, Live: c.platform.Live(),
		Namespaces: func() ([]*policy.NamespacePolicy, error) { return c.namespaces.All(), nil },
		Protect:    c.options.protected(), DryRun: c.options.dryRun,
		MinInterval: c.options.cleanupMinInterval, MaxPolicies: c.options.cleanupMaxPolicies, RequireApproval: c.options.requireApproval,
		ReportBytes: reports.Value(),
		Held: func(ctx context.Context, scope string) bool {
			return c.pauses.Holds(ctx, policy.TriggerCleanup, scope)
		},
		ServerTime: c.serverTime,
		Event: func(object *unstructured.Unstructured, eventType, reason, message string) {
			recorder.Eventf(object, nil, eventType, reason, "Cleanup", "%s", message)
		},
		Clock: c.clock, Log: c.log, Registerer: metrics.Registry, PolicyNames: c.options.metricsPolicyNames,
	})
	return err
}

// served are the resources that cleanup policies can match. The error may be [match.SilentGroups].
func (c *controller) served(ctx context.Context) ([]match.Resource, error) {
	groups, lists, err := clientdiscovery.ServerGroupsAndResourcesWithContext(ctx, clientdiscovery.ToDiscoveryInterfaceWithContext(c.typed.Discovery()))
	if failed, ok := clientdiscovery.GroupDiscoveryFailedErrorGroups(err); ok {
		err = silent(failed)
	} else if err != nil {
		return nil, err
	}
	return served.Resources(groups, lists), err
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
