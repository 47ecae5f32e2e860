package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server runs a handler on a listener until its context ends. It is a Runnable of
// controller-runtime that needs no leader.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Limits of a connection: a client that dawdles gives way to the others.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 30 * time.Second
	writeTimeout   = 60 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
	// drainTimeout is how long requests under way may take at the end.
	drainTimeout = 10 * time.Second
)

// Listen binds address, such as 127.0.0.1:8081, so that a port which is taken is known before
// anything runs.
func Listen(ctx context.Context, address string, handler http.Handler) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %q: %w", address, err)
	}
	return &Server{listener: listener, server: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}}, nil
}

// Addr is the address that was bound.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// NeedLeaderElection reports that probes are answered by every replica.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends, and then until the requests under way are answered.
func (s *Server) Start(ctx context.Context) error {
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		drained <- s.server.Shutdown(limit)
	})
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", s.Addr(), err)
	}
	if err := <-drained; err != nil {
		return fmt.Errorf("stopping the server on %s: %w", s.Addr(), err)
	}
	return nil
}

// ListenTLS is [Listen] with TLS, or without if config is nil. The configuration is not changed. It
// must have a certificate or GetCertificate.
func ListenTLS(ctx context.Context, address string, handler http.Handler, config *tls.Config) (*Server, error) {
	server, err := Listen(ctx, address, handler)
	if err != nil || config == nil {
		return server, err
	}
	server.listener = tls.NewListener(server.listener, config)
	return server, nil
}
