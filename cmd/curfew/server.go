package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/webhook/api"
)

// addServer serves the webhooks on controller-runtime's webhook server.
func (a *admission) addServer(context.Context) error {
	config := a.certificate.Clone()
	// API servers use HTTP/1.1 with a webhook behind a Service, whatever that offers (kubernetes
	// issue 75791).
	config.NextProtos = []string{"http/1.1"}
	if file := a.options.clientCAFile; file != "" {
		var err error
		if config, err = certs.RequireClients(config, file, slices.Clone(a.options.clientNames)); err != nil {
			return fmt.Errorf("--client-ca-file=%s: %w", file, err)
		}
	}
	a.server = ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host: a.options.host, Port: a.options.port, TLSOpts: []func(*tls.Config){func(server *tls.Config) {
			server.MinVersion, server.NextProtos = config.MinVersion, config.NextProtos
			server.GetCertificate, server.GetConfigForClient = config.GetCertificate, config.GetConfigForClient
		}},
	})
	a.handlers.Register(func(path string, handler http.Handler) { a.server.Register(path, a.drain.closing(handler)) })
	return a.mgr.Add(a.server)
}

// started reports whether the server answers. It asks until it has: with --client-ca-file each
// question is a handshake that fails, and is logged.
func (a *admission) started(context.Context) error {
	if a.answers.Load() {
		return nil
	}
	err := a.server.StartedChecker()(nil)
	a.answers.Store(err == nil)
	return err
}

// maxConnections bounds the connections of /metrics, and of the HTTP API. Anyone who reaches a port
// may open some, and the process has other work (S9).
const maxConnections = 100

// metrics serves /metrics; nil if nothing does. The manager's own server limits neither connections
// nor their time.
func (p *process) metrics(ctx context.Context) (*api.Server, error) {
	if p.options.metricsAddr == "0" {
		return nil, nil
	}
	handler := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	var config *tls.Config
	if p.options.metricsSecure {
		var err error
		if config, err = p.metricsTLS(); err != nil {
			return nil, fmt.Errorf("a certificate for /metrics: %w", err)
		}
		handler = api.Guarded(p.users(""), p.access(), p.log.WithName("metrics"), handler)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	server, err := api.ListenTLS(ctx, p.options.metricsAddr, mux, config)
	if err != nil {
		return nil, fmt.Errorf("/metrics: %w", err)
	}
	return server.AtMost(maxConnections), nil
}

// metricsTLS is the webhook's certificate. A controller without a webhook signs one itself, which
// scrapers cannot verify.
func (p *process) metricsTLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tlsVersions[p.options.tlsMinVersion], NextProtos: []string{"http/1.1"}}
	if p.certificates != nil {
		config.GetCertificate = p.certificates.GetCertificate
		return config, nil
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, err
	}
	config.Certificates = make([]tls.Certificate, 1)
	config.Certificates[0], err = tls.X509KeyPair(certificate, key)
	return config, err
}

// users finds the users of tokens for an audience; empty means that of the API server.
func (p *process) users(audience string) api.Authenticator {
	return api.NewTokenReviews(p.typed.AuthenticationV1().TokenReviews(), audience)
}

// access finds out what users may do.
func (p *process) access() api.Authorizer {
	return api.NewAccessReviews(p.typed.AuthorizationV1().SubjectAccessReviews())
}

// drain stops a webhook without failing a request: it serves until its callers have noticed that it
// is no longer ready, and meanwhile closes each connection after its response. Idle connections
// close at the end of that time.
type drain struct{ begun atomic.Bool }

// follow returns a context that ends the delay after ctx does.
func (d *drain) follow(ctx context.Context, after func(time.Duration) <-chan time.Time, delay time.Duration) context.Context {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.begun.Store(true)
		if delay > 0 {
			<-after(delay)
		}
		cancel()
	})
	return later
}

// closing has each connection close after the response that is under way.
func (d *drain) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// check fails once the process has been told to stop.
func (d *drain) check() api.Check {
	return api.Check{Name: "stopping", Probe: func(context.Context) error {
		if d.begun.Load() {
			return errors.New("the process has been told to stop")
		}
		return nil
	}}
}
