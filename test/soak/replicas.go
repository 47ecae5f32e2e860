package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"curfew.dev/curfew/test/harness"
)

// replica is one of the controllers, and what stands between it and the API server. A process that
// ends is started again, as a kubelet would.
type replica struct {
	cluster *harness.Cluster
	wire    *harness.Wire
	options harness.CurfewOptions

	mu      sync.Mutex
	current *harness.Curfew
}

func newReplica(cluster *harness.Cluster, name string, args []string) (*replica, error) {
	wire, err := harness.NewWire(cluster.Config)
	if err != nil {
		return nil, err
	}
	return &replica{cluster: cluster, wire: wire, options: harness.CurfewOptions{Wire: wire, Name: name, Args: args}}, nil
}

// start brings it up for the first time; the API server must answer by then.
func (r *replica) start(ctx context.Context) error {
	started, err := r.cluster.StartController(ctx, r.options)
	if err != nil {
		return err
	}
	r.options.Kubeconfig = started.Kubeconfig
	r.current = started
	return nil
}

// run keeps it running until ctx ends, and then ends it.
func (r *replica) run(ctx context.Context) error {
	for {
		r.mu.Lock()
		current := r.current
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return current.Stop(ending)
		case <-current.Ended():
		}
		pause(ctx, 300*time.Millisecond)
		if ctx.Err() != nil {
			return nil
		}
		next, err := r.cluster.LaunchController(ctx, r.options)
		if err != nil {
			return fmt.Errorf("start %s again: %w", r.options.Name, err)
		}
		r.mu.Lock()
		r.current = next
		r.mu.Unlock()
	}
}

// kill ends the process with SIGKILL.
func (r *replica) kill() error {
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	return current.Kill()
}
