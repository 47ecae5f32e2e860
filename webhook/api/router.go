package api

import (
	"cmp"
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
)

// Check is one thing that has to hold for the process to be alive or ready. It must not block for
// longer than its context.
type Check struct {
	// Name as answers have it, such as "certificate".
	Name string
	// Probe returns why the check fails, for operators.
	Probe func(context.Context) error
}

// Options of the router.
type Options struct {
	// Live checks fail where only a restart helps; usually there are none.
	Live []Check
	// Ready checks fail where requests should go elsewhere for now: no serving certificate yet, caches
	// not in step.
	Ready []Check
	// MaxBody bounds request bodies, in bytes; zero means [DefaultMaxBody].
	MaxBody int64
	// Timeout ends the context of a request; zero means [DefaultTimeout].
	Timeout time.Duration
	// Logger is used for panics.
	Logger logr.Logger
}

// The defaults: an object may be 3 MB, and a probe waits a second or ten.
const (
	DefaultMaxBody = 8 << 20
	DefaultTimeout = 10 * time.Second
)

// New returns a router with /healthz and /readyz, to which other routes may be added.
func New(options Options) (chi.Router, error) {
	for _, check := range append(append([]Check(nil), options.Live...), options.Ready...) {
		if check.Name == "" || check.Probe == nil {
			return nil, fmt.Errorf("api: check %q has no name or no Probe: set both", check.Name)
		}
	}
	if options.MaxBody < 0 || options.Timeout < 0 {
		return nil, errors.New("api: MaxBody or Timeout is negative: use 0 for the default")
	}
	options.MaxBody = cmp.Or(options.MaxBody, DefaultMaxBody)
	options.Timeout = cmp.Or(options.Timeout, DefaultTimeout)
	router := chi.NewRouter()
	router.Use(recovered(options.Logger), limited(options.MaxBody), timed(options.Timeout))
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, r, http.StatusNotFound, "there is nothing at "+r.URL.Path)
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			if router.Match(chi.NewRouteContext(), method, r.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		WriteProblem(w, r, http.StatusMethodNotAllowed, r.Method+" is not understood at "+r.URL.Path)
	})
	for path, checks := range map[string][]Check{"/healthz": options.Live, "/readyz": options.Ready} {
		router.Get(path, probe(checks))
		router.Head(path, probe(checks))
	}
	return router, nil
}

// probe answers "ok", or 503 with every check that does not hold.
func probe(checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var failures []string
		for _, check := range checks {
			if err := check.Probe(r.Context()); err != nil {
				failures = append(failures, check.Name+": "+err.Error())
			}
		}
		if len(failures) > 0 {
			WriteProblem(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d of %d checks do not hold", len(failures), len(checks)), failures...)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	}
}

// recovered turns a panic into a problem without internal details.
func recovered(log logr.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				reason := recover()
				if reason == nil {
					return
				}
				if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(reason) // net/http's own way to cut a connection
				}
				log.Error(fmt.Errorf("panic: %v\n%s", reason, debug.Stack()), "request failed", "method", r.Method, "path", r.URL.Path)
				WriteProblem(w, r, http.StatusInternalServerError, "the request failed inside Curfew")
			}()
			next.ServeHTTP(w, r)
		})
	}
}

// limited refuses bodies whose Content-Length is too large, and cuts off other bodies at the limit.
func limited(limit int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > limit {
				WriteProblem(w, r, http.StatusRequestEntityTooLarge,
					fmt.Sprintf("the body has %d bytes: send %d or less", r.ContentLength, limit))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			next.ServeHTTP(w, r)
		})
	}
}

func timed(timeout time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// ProblemContentType is the media type of [Problem].
const ProblemContentType = "application/problem+json"

// Problem is an error in the form of RFC 9457. The type is "about:blank", which means that the
// title says what the status says.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`
	Errors   []string `json:"errors,omitempty"`
}

// WriteProblem answers a request with a problem. The detail names the field, the value and the fix,
// and nothing internal; errors are further ones, one line each.
func WriteProblem(w http.ResponseWriter, r *http.Request, status int, detail string, errors ...string) {
	body, err := json.Marshal(Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Instance: r.URL.Path, Errors: errors,
	})
	if err != nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	w.Header().Set("Content-Type", ProblemContentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The client may have disconnected.
	_, _ = w.Write(append(body, '\n'))
}

// openAPI describes every route of the router. A test holds the two together.
//
//go:embed openapi.json
var openAPI []byte

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI)
}

// slots bounds requests that ask the cluster (false) and offline ones (true), each for itself:
// offline requests need no token, and must not keep out requests with one.
type slots map[bool]*semaphore.Weighted

func newSlots(limit int64) slots {
	return slots{false: semaphore.NewWeighted(limit), true: semaphore.NewWeighted(limit)}
}

func (s slots) of(r *http.Request) *semaphore.Weighted { return s[queryOf(r).offline] }

// maxWait is how long a request waits for a slot. Connections are bounded, and so are those that
// wait.
const maxWait = 2 * time.Second

// limitedInFlight has requests beyond a limit wait, and then refuses them.
func limitedInFlight(limit int64) func(http.Handler) http.Handler {
	slots := newSlots(limit)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), maxWait)
			err := slots.of(r).Acquire(ctx, 1)
			cancel()
			if err != nil {
				tooBusy(w, r)
				return
			}
			defer slots.of(r).Release(1)
			next.ServeHTTP(w, r)
		})
	}
}

// shed refuses requests while admission has large objects to review: admission cannot wait.
func shed(busy func() bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if busy != nil && busy() {
				tooBusy(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func tooBusy(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "1")
	WriteProblem(w, r, http.StatusServiceUnavailable, "too many requests are under way: try again in a second")
}

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

// AtMost closes new connections while that many are open. It bounds what clients without a token
// can take from a process that has other work (S9).
func (s *Server) AtMost(connections int64) *Server {
	var open atomic.Int64
	s.server.ConnState = func(connection net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > connections {
				_ = connection.Close()
			}
		case http.StateClosed:
			open.Add(-1)
		}
	}
	return s
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
