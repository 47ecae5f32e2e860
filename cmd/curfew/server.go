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

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"curfew.dev/curfew/certs"
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
func (a *admission) started(probe *http.Request) error {
	if a.answers.Load() {
		return nil
	}
	err := a.server.StartedChecker()(probe)
	a.answers.Store(err == nil)
	return err
}

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

// addHealth serves /healthz and /readyz. A controller that waits for the lease is ready.
func (p *process) addHealth(ctx context.Context, ready map[string]healthz.Checker) error {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": nil, "/readyz": ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return p.serve(ctx, "health", p.options.healthAddr, healthServer(mux), nil)
}

// healthServer has narrow limits: anyone may reach the port, and a probe is small.
func healthServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		MaxHeaderBytes: 4 << 10}
}

// apiServer gives clients time to send manifests. One that dawdles gives way to the others.
func apiServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 90 * time.Second, MaxHeaderBytes: 64 << 10}
}

// serve has the manager run a server. Without a TLS configuration it is plain HTTP. It listens
// at once, so that a port that is taken is known before anything runs.
func (p *process) serve(ctx context.Context, name, address string, server *http.Server, config *tls.Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %q: %w", address, err)
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	return p.mgr.Add(&manager.Server{Name: name, Server: server, Listener: listener, ShutdownTimeout: new(drainTimeout)})
}

// drainTimeout is how long requests under way may take at the end.
const drainTimeout = 10 * time.Second

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

// check fails once the process is stopping.
func (d *drain) check(*http.Request) error {
	if d.begun.Load() {
		return errors.New("the process is stopping")
	}
	return nil
}
