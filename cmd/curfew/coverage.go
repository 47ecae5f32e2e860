package main

import (
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/coverage"
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/registry"
)

// newCoverage wires profiles, policies and permissions → which requests the API server sends.
func newCoverage(objects dynamic.Interface, kinds *registry.Registry, policies *follow.Policies, labels *discovery.Labels, options *options, log logr.Logger) (*coverage.Keeper, error) {
	keeper, err := coverage.New(coverage.Options{
		Kinds: kinds.Served, RuntimesKnown: kinds.RuntimesKnown, Policies: policies.Objects, Deletable: labels.Everywhere,
		Mutating:   objects.Resource(admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")),
		Validating: objects.Resource(admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")),
		Namespace:  options.namespace, Controller: controllerAccount, Static: certs.DefaultConfiguration, FailClosed: options.failClosed, Alias: options.kyvernoLabel,
		Protect: options.protected(), DryRun: options.dryRun,
		Clock: clock.RealClock{}, Log: log, Registerer: metrics.Registry,
	})
	if err != nil {
		return nil, err
	}
	kinds.OnChange(keeper.Again)
	kinds.OnRuntimes(keeper.Again)
	labels.OnChange(keeper.Again)
	policies.OnChange(func(func(schema.GroupKind) bool) { keeper.Again() })
	return keeper, nil
}
