package main

import (
	"fmt"

	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
)

// triggers lists why objects become due, and what is done then.
func (c *controller) triggers(client *deletion.Client) ([]engine.Trigger, error) {
	deletes, err := deletion.New(client, c.clock, metrics.Registry)
	if err != nil {
		return nil, err
	}
	partial, err := metadata.NewForConfig(c.watches)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	stops, err := stop.New(stop.Options{
		Objects: c.objects, Metadata: partial, Clock: c.clock, ServerTime: c.serverTime, Log: c.log, Registerer: metrics.Registry,
		Marked:  c.notices.failed,
		Profile: c.platform.Platform.Profile,
	})
	if err != nil {
		return nil, err
	}
	return []engine.Trigger{
		{Name: string(policy.TriggerTTL), Action: deletes, Deletes: true},
		{Name: string(policy.TriggerLabel), Action: deletes, Deletes: true},
		{Name: string(policy.TriggerDeadline), Action: stops, Payload: true},
	}, nil
}
