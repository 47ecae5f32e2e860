package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

const (
	// reviewNamespace is where the reviewed Jobs are created; it has a default TTL of its own, as the
	// other contestants fill in a constant.
	reviewNamespace = "bench-curfew"
	// policyNamespace is of the same team and has none, so that a policy decides. Its name is as long.
	policyNamespace = "bench-policy"
	// probeNamespace belongs to no team.
	probeNamespace = "bench-probe"
)

// policies writes LifecyclePolicies.
type policies struct {
	client client.Client
	have   int
}

func newPolicies(e *environment) (*policies, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("know Curfew's kinds: %w", err)
	}
	c, err := client.New(e.config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &policies{client: c}, nil
}

// removeAll leaves no policy for the next bench.
func (p *policies) removeAll(ctx context.Context) error {
	if err := p.client.DeleteAllOf(context.WithoutCancel(ctx), &v1alpha1.LifecyclePolicy{}); err != nil {
		return fmt.Errorf("delete the policies: %w", err)
	}
	return nil
}

// set makes the cluster have so many policies, and returns when Curfew judges by them.
func (p *policies) set(ctx context.Context, s *site, count int) error {
	if count == p.have {
		return nil
	}
	for _, old := range builders.LifecyclePolicies(p.have) {
		if err := p.client.Delete(ctx, old); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete policy %s: %w", old.Name, err)
		}
	}
	before := p.have
	p.have = count
	for _, policy := range builders.LifecyclePolicies(count) {
		if err := p.client.Create(ctx, policy); err != nil {
			return fmt.Errorf("create policy %s: %w", policy.Name, err)
		}
	}
	// The probe is the last of its set, written and deleted, and events come in order.
	if before > 0 {
		if err := s.awaitProbe(ctx, before, false); err != nil {
			return err
		}
	}
	if count > 0 {
		return s.awaitProbe(ctx, count, true)
	}
	return nil
}
