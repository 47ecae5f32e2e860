package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/webhook/api"
)

// addServer serves the webhooks through the mux of controller-runtime's webhook server, which
// counts and measures requests. The listener is ours: that server allows 32 seconds and 1 MiB for a
// header and has no other deadline, so that anyone who reaches the port could exhaust the process
// (S9), and it cancels the requests under way when it stops.
func (a *admission) addServer(ctx context.Context) error {
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
	routes := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	a.handlers.Register(routes.Register)
	address := net.JoinHostPort(a.options.host, fmt.Sprint(a.options.port))
	listener, err := api.ListenTLS(ctx, address, a.drain.closing(routes.WebhookMux()), config)
	if err != nil {
		return err
	}
	return a.mgr.Add(listener)
}

// maxConnections bounds the connections of the HTTP API. Anyone who reaches the port may open some,
// and the process has other work (S9).
const maxConnections = 100

// metrics are the options of controller-runtime's metrics server.
func (p *process) metrics() server.Options {
	out := server.Options{BindAddress: p.options.metricsAddr, SecureServing: p.options.metricsSecure}
	if out.SecureServing {
		out.FilterProvider = filters.WithAuthenticationAndAuthorization
		// The certificate of the webhook. The server of a controller makes one, which scrapers cannot
		// verify.
		out.TLSOpts = []func(*tls.Config){func(config *tls.Config) {
			config.MinVersion, config.NextProtos = tlsVersions[p.options.tlsMinVersion], []string{"http/1.1"}
			if p.certificates != nil { // It is made after the manager.
				config.GetCertificate = p.certificates.GetCertificate
			}
		}}
	}
	return out
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
