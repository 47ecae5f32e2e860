package main

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/coverage"
	"curfew.dev/curfew/controller/discovery"
)

// addCoverage wires profiles, policies and permissions → which requests the API server sends.
func (c *controller) addCoverage(context.Context) (err error) {
	configurations := func(resource string) coverage.Client {
		return c.objects.Resource(admissionv1.SchemeGroupVersion.WithResource(resource))
	}
	var deletable func() ([]schema.GroupResource, bool)
	var served func() ([]discovery.Kind, bool)
	if c.labels != nil {
		deletable, served = c.labels.Everywhere, c.labels.Served
	}
	c.coverage, err = coverage.New(coverage.Options{
		Kinds: c.platform.Platform.Served, RuntimesKnown: c.platform.Platform.RuntimesKnown, Policies: c.policies.Objects, Deletable: deletable,
		Labelled: served,
		Mutating: configurations("mutatingwebhookconfigurations"), Validating: configurations("validatingwebhookconfigurations"),
		Namespace: c.options.namespace, Controller: controllerAccount, Static: certs.DefaultConfiguration,
		FailClosed: c.options.failClosed, Alias: c.options.kyvernoLabel, Protect: c.options.protected(), DryRun: c.options.dryRun, Off: c.options.off(),
		Changed: c.reported.Set,
		Clock:   c.clock, Log: c.log, Registerer: metrics.Registry,
	})
	return err
}
