//go:build e2e

package main

import (
	"context"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/test/e2e/stale"
)

func init() {
	registered = append(registered, registration{name: stale.Name,
		action: func(c *controller) (engine.Trigger, error) { return stale.New(c.objects), nil },
		find: func(ctx context.Context, c *controller) error {
			return stale.Find(ctx, c.feeds, c.objects, c.maker.shared)
		}})
}
