package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/coverage"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/webhook"
	"curfew.dev/curfew/webhook/api"
)

// serviceName is the Service in front of the webhooks, as manifests/deploy names it.
const serviceName = "curfew-webhook"

// controllerAccount is the ServiceAccount that the controller runs as, as manifests/rbac names it.
const controllerAccount = "curfew-controller"

// addWebhook wires certificate → TLS server → handlers, and answers with what must hold before requests may come.
func addWebhook(ctx context.Context, mgr manager.Manager, config *rest.Config, serverTime follow.ServerTime, options *options, log logr.Logger) ([]api.Check, error) {
	provider, err := newCertificates(config, serverTime, options)
	if err != nil {
		return nil, err
	}
	if err := metrics.Registry.Register(certs.NewExpiryMetric(provider)); err != nil {
		return nil, fmt.Errorf("registering metrics of the certificate: %w", err)
	}
	warnBelow, err := policy.ParseDuration(options.warnBelow)
	if err != nil {
		return nil, err
	}
	maxReview, err := resource.ParseQuantity(options.maxReviewSize)
	if err != nil {
		return nil, fmt.Errorf("--max-review-size=%s: %w", options.maxReviewSize, err)
	}
	certificate := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: provider.GetCertificate}
	mux := http.NewServeMux()
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host: options.host, Port: options.port, WebhookMux: mux,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion, c.GetCertificate = certificate.MinVersion, certificate.GetCertificate
			// What an API server speaks to a webhook behind a Service, whatever that offers (kubernetes issue 75791).
			c.NextProtos = []string{"http/1.1"}
		}},
	})
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	if err := v1alpha1.AddToScheme(mgr.GetScheme()); err != nil {
		return nil, fmt.Errorf("Curfew's own types: %w", err)
	}
	builtin, err := profiles.All()
	if err != nil {
		return nil, err
	}
	platform, err := platform.New(builtin)
	if err != nil {
		return nil, err
	}
	builtinOnly := platform.Snapshot() // Nothing of the cluster is in it yet.
	watch := webhook.NewCatalogWatch(platform, mgr.GetCache(), log.WithName("catalog"))
	handlers, err := webhook.New(webhook.Options{
		Platform:        platform,
		Runtimes:        webhook.NewRuntimes(mgr.GetCache(), mgr.GetAPIReader()),
		Pods:            webhook.LivePods{Reader: mgr.GetAPIReader()},
		Namespaces:      webhook.NewNamespaces(mgr.GetCache(), mgr.GetAPIReader()),
		Clock:           clock.RealClock{},
		ServerTime:      serverTime,
		Registerer:      metrics.Registry,
		WarnBelow:       warnBelow,
		AnnotationsOnly: options.annotationsOnly(),
		Access:          webhook.NewCachedReviews(webhook.SubjectAccessReviews{Client: authorization.SubjectAccessReviews()}, clock.RealClock{}),
		ControllerUser:  "system:serviceaccount:" + options.namespace + ":" + controllerAccount,
		RequireDelete:   options.requireDelete,
		StrictLabels:    options.strictLabels,
		KyvernoLabel:    options.kyvernoLabel,
		MaxReview:       maxReview.Value(),
		Memory:          memoryLimit(),
		Controller:      policy.Surroundings{Protect: options.protected(), DryRun: options.dryRun},
		Logger:          log.WithName("webhook"),
	})
	if err != nil {
		return nil, err
	}
	handlers.Register(mux)
	for _, runnable := range []manager.Runnable{provider, watch, server} {
		if err := mgr.Add(runnable); err != nil {
			return nil, err
		}
	}
	ready := []api.Check{
		{Name: "certificate", Probe: func(context.Context) error {
			if !provider.Ready() {
				return errors.New("no serving certificate yet, or the API server has not been told whom to trust")
			}
			return nil
		}},
		{Name: "policies", Probe: func(context.Context) error { return watch.Ready() }},
		{Name: "namespaces", Probe: func(ctx context.Context) error {
			informer, err := mgr.GetCache().GetInformer(ctx, webhook.NamespaceMetadata(), cache.BlockUntilSynced(false))
			if err != nil {
				return err
			}
			if !informer.HasSynced() {
				return errors.New("not all namespaces are known yet")
			}
			return nil
		}},
	}
	if err := addAPI(ctx, mgr, config, options, handlers, certificate, builtinOnly, ready, log.WithName("api")); err != nil {
		return nil, fmt.Errorf("setting up the HTTP API: %w", err)
	}
	return ready, nil
}

func newCertificates(config *rest.Config, serverTime follow.ServerTime, options *options) (certs.Provider, error) {
	// A live client: a cached one would have to list the Secrets of the whole cluster.
	live, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	dns := append(certs.ServiceDNSNames(serviceName, options.namespace), "localhost")
	return certs.NewSelfSigned(certs.Options{
		Client: live, Namespace: options.namespace,
		Configurations: []string{certs.DefaultConfiguration, coverage.Name},
		DNSNames:       dns, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ServerTime: serverTime,
	})
}
