package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/webhook"
	"curfew.dev/curfew/webhook/api"
)

// serviceName is the Service in front of the webhooks, as manifests/deploy names it.
const serviceName = "curfew-webhook"

// admission are the parts of the webhooks.
type admission struct {
	*process
	certificate *tls.Config
	builtin     *platform.Snapshot // without anything of the cluster
	handlers    *webhook.Webhooks
	server      ctrlwebhook.Server
	answers     atomic.Bool
}

// addWebhook wires certificate → TLS server → handlers, and returns the checks that must pass
// before requests may come.
func addWebhook(ctx context.Context, process *process) (map[string]healthz.Checker, error) {
	a := &admission{process: process, builtin: process.platform.Platform.Store().Snapshot()}
	err := steps(ctx, a.addCertificates, a.addHandlers, a.addServer, a.addAPI)
	return a.ready(), err
}

func (a *admission) addCertificates(context.Context) error {
	// A cached client would have to list the Secrets of the whole cluster.
	live, err := client.NewWithWatch(a.config, client.Options{})
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	configurations := []string{certs.DefaultConfiguration, webhookconfig.Name}
	if a.options.certificates == certManager {
		a.certificates, err = certs.NewMounted(certs.MountedOptions{Dir: a.options.certificateDir, Client: live, Configurations: configurations})
	} else {
		a.certificates, err = certs.NewSelfSigned(certs.Options{
			Client: live, Namespace: a.options.namespace, Configurations: configurations,
			DNSNames: append(certs.ServiceDNSNames(serviceName, a.options.namespace), "localhost"),
			IPs:      []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, Settle: a.options.caSettle, ServerTime: a.serverTime,
		})
	}
	if err != nil {
		return err
	}
	if err := metrics.Registry.Register(certs.NewExpiryMetric(a.certificates)); err != nil {
		return fmt.Errorf("registering metrics of the certificate: %w", err)
	}
	a.certificate = &tls.Config{MinVersion: tlsVersions[a.options.tlsMinVersion], GetCertificate: a.certificates.GetCertificate}
	return a.mgr.Add(a.certificates)
}

func (a *admission) addHandlers(context.Context) error {
	warnBelow, err := lifetime.ParseDuration(a.options.warnBelow)
	if err != nil {
		return err
	}
	objects, err := follow.NewObjects(a.config)
	if err != nil {
		return err
	}
	policies, err := metadata.NewForConfig(a.config)
	if err != nil {
		return err
	}
	reviews, err := webhook.NewReviews(a.config)
	if err != nil {
		return err
	}
	var tallies webhook.TallyGetter // no typed nil
	if a.options.on(policy.TriggerTally) {
		tallies = a.platform.Platform.Tallies
	}
	a.handlers, err = webhook.New(webhook.Options{
		Platform: a.platform.Platform.Store(), Ready: a.platform.Platform.Ready, Runtimes: a.platform.Platform.Runtimes, Objects: objects,
		Owners:     &follow.Owners{Client: a.dynamic, Mapper: a.mgr.GetRESTMapper(), Whole: true},
		Namespaces: a.platform.Namespaces, Tallies: tallies, Clock: a.clock, ServerTime: a.serverTime, Registerer: metrics.Registry,
		WarnBelow: warnBelow, AnnotationsOnly: a.options.annotationsOnly(), Access: reviews,
		ControllerUser: "system:serviceaccount:" + a.options.namespace + ":" + controllerAccount,
		CleanupUser:    "system:serviceaccount:" + a.options.namespace + ":" + cleanupAccount,
		RequireDelete:  a.options.requireDelete, StrictLabels: a.options.strictLabels, WarnExpired: a.options.expiredLabels == "warn",
		KyvernoLabel: a.options.kyvernoLabel, ControllerAccounts: a.options.controllerAccounts,
		CleanupInterval: a.options.cleanupMinInterval, CleanupMaxPolicies: a.options.cleanupMaxPolicies, CleanupPolicies: policies,
		Memory:     memoryLimit(),
		Controller: judging.Surroundings{Protect: a.options.protected(), DryRun: a.options.dryRun, Off: a.options.triggers(false)},
		Logger:     a.log.WithName("webhook"),
	})
	return err
}

// ready returns the checks that must pass before requests may come.
func (a *admission) ready() map[string]healthz.Checker {
	return map[string]healthz.Checker{
		"stopping":       a.drain.check,
		"webhook-server": a.started,
		"certificate": func(*http.Request) error {
			if !a.certificates.Ready() {
				return errors.New("no serving certificate yet, or caBundle of the webhook configurations does not have its CA yet")
			}
			return nil
		},
		"policies": func(*http.Request) error { return a.platform.Platform.Ready() },
		"namespaces": func(*http.Request) error {
			if !a.platform.Namespaces.Synced() {
				return errors.New("not all namespaces are known yet")
			}
			return nil
		},
	}
}

// addAPI serves the webhooks' answers over HTTP, with the same profiles, context, settings and
// certificate.
func (a *admission) addAPI(ctx context.Context) error {
	if a.options.apiAddr == "" {
		return nil
	}
	decisions, err := a.decisions()
	if err != nil {
		return fmt.Errorf("setting up the HTTP API: %w", err)
	}
	return a.serve(ctx, "api", a.options.apiAddr, apiServer(api.New(*decisions)), a.certificate)
}

func (a *admission) decisions() (*api.Decisions, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, err
	}
	schemas, err := lint.NewSchemas(definitions)
	if err != nil {
		return nil, err
	}
	reviews, err := webhook.NewReviews(a.config) // Of its own: admission waits for no caller of the API.
	if err != nil {
		return nil, err
	}
	return &api.Decisions{
		Builtin: a.builtin, Busy: a.handlers.Busy, Clock: a.clock,
		Settings: lint.Options{
			Source: a.handlers.Source(), Schemas: schemas, Rules: a.handlers.RuleOptions(),
			AnnotationsOnly: a.options.annotationsOnly(), CleanupInterval: a.options.cleanupMinInterval,
		},
		TokenReviews: a.typed.AuthenticationV1().TokenReviews(), Audience: a.options.httpAPIAudience, Authorizer: reviews,
		Access: a.handlers.Access, Logger: a.log.WithName("api"),
	}, nil
}
