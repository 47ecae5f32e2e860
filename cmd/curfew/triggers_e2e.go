//go:build e2e

package main

import (
	"context"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/test/e2e/stale"
)

func init() {
	_ = judging.RegisterTrigger(judging.TriggerInfo{Name: stale.Name, Verb: "takes", Settings: "label " + stale.Label})
	registered[stale.Name] = registration{
		action: func(c *controller) (expire.Trigger, error) { return stale.New(c.objects), nil },
		find: func(ctx context.Context, c *controller) error {
			return stale.Find(ctx, c.feeds, c.objects, c.maker.shared)
		},
	}
}
