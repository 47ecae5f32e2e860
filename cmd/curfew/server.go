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

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/webhook/api"
)

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
	server := newServer(a.options.host, a.options.port, config)
	a.handlers.Register(func(path string, handler http.Handler) { server.Register(path, a.drain.serve(handler)) })
	a.listening = onceReady(server.StartedChecker())
	return a.mgr.Add(unordered{server.Start})
}

// newServer is a server of controller-runtime with a TLS configuration of ours.
func newServer(host string, port int, config *tls.Config) ctrlwebhook.Server {
	return ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.NextProtos = config.MinVersion, config.NextProtos
		c.GetCertificate, c.GetConfigForClient = config.GetCertificate, config.GetConfigForClient
	}}})
}

// unordered has the manager start a webhook server together with everything else. It would start a
// webhook.Server before the caches that reviews read.
type unordered struct{ start func(context.Context) error }

func (u unordered) Start(ctx context.Context) error { return u.start(ctx) }

// NeedLeaderElection reports that every replica serves.
func (unordered) NeedLeaderElection() bool { return false }

// onceReady stops asking after a success: each question is a TLS connection, without the client
// certificate that --client-ca-file wants.
func onceReady(check healthz.Checker) func(context.Context) error {
	var passed atomic.Bool
	return func(context.Context) error {
		if passed.Load() {
			return nil
		}
		err := check(nil)
		passed.Store(err == nil)
		return err
	}
}

// drain stops a webhook without failing a request: it serves until its callers have noticed that it
// is no longer ready, and meanwhile closes each connection after its response. Idle connections
// close at the end of that time.
type drain struct{ begun, ended atomic.Bool }

// follow returns a context that ends the delay after ctx does.
func (d *drain) follow(ctx context.Context, after func(time.Duration) <-chan time.Time, delay time.Duration) context.Context {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.begun.Store(true)
		if delay > 0 {
			<-after(delay)
		}
		d.ended.Store(true)
		cancel()
	})
	return later
}

// Limits of a request. controller-runtime's server has no timeouts after the header. The header
// itself may take 32 seconds and have 1 MiB, and no option changes that.
const (
	readTimeout  = 30 * time.Second
	writeTimeout = 60 * time.Second
	maxHeader    = 64 << 10
)

// serve adds to a handler what controller-runtime's server lacks: limits of a request, connections
// that close while the process drains, and requests that go on when the server stops.
func (d *drain) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, now := http.NewResponseController(w), time.Now()
		_ = connection.SetReadDeadline(now.Add(readTimeout))
		_ = connection.SetWriteDeadline(now.Add(writeTimeout))
		tooLarge := headerSize(r.Header) > maxHeader
		if tooLarge || d.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		if tooLarge {
			http.Error(w, "the header has more than 64 KiB", http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		defer context.AfterFunc(r.Context(), func() {
			if !d.ended.Load() { // The client has disconnected.
				cancel()
			}
		})()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func headerSize(header http.Header) (size int) {
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
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
