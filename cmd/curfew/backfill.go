package main

import (
	"context"
	"fmt"

	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/backfill"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/permission"
)

// addBackfill wires policies and kinds → default labels of existing objects.
func (c *controller) addBackfill(context.Context) error {
	if c.labels == nil {
		return nil
	}
	authorization, err := authorizationclient.NewForConfig(c.watches)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	c.backfill, err = backfill.New(backfill.Options{
		Places: c.labels.Places, Metadata: c.maker.partial, Whole: c.objects, Cached: c.platform, Live: c.platform.Live(),
		Lacks:      permission.Reviews{Access: authorization.SelfSubjectAccessReviews()}.LacksIn,
		ServerTime: c.serverTime, Failed: c.policies.Failed, Protect: c.options.protected(), DryRun: c.options.dryRun,
		PerMinute: engine.DefaultBackfillPerMinute, Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
	return err
}
