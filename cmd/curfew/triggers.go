package main

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
)

// newTriggers lists why objects become due, and what is done then.
func newTriggers(client *deletion.Client, config *rest.Config, objects dynamic.Interface, stopping stop.Options) ([]engine.Trigger, error) {
	deletes, err := deletion.New(client, clock.RealClock{}, metrics.Registry)
	if err != nil {
		return nil, err
	}
	stopping.Objects = objects
	if stopping.Metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	stops, err := stop.New(stopping)
	if err != nil {
		return nil, err
	}
	return []engine.Trigger{
		{Name: string(policy.TriggerTTL), Action: deletes, Deletes: true},
		{Name: string(policy.TriggerLabel), Action: deletes, Deletes: true},
		{Name: string(policy.TriggerDeadline), Action: stops, Payload: true},
	}, nil
}
