package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
)

// requestTimeout ends the context of a request.
const requestTimeout = 10 * time.Second

// New returns a router with /v1/default, /v1/validate and /openapi.json.
func New(d Decisions) chi.Router {
	router := chi.NewRouter()
	router.Use(recovered(d.Logger), timed)
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, r, http.StatusNotFound, "there is nothing at "+r.URL.Path)
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if router.Match(chi.NewRouteContext(), method, r.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		WriteProblem(w, r, http.StatusMethodNotAllowed, r.Method+" is not understood at "+r.URL.Path)
	})
	router.Get(PathOpenAPI, serveOpenAPI)
	judging := newSlots(maxAtWork)
	router.Group(func(router chi.Router) {
		// A request without a valid token takes no slot.
		router.Use(queried, shed(d.Busy), authenticated(d.Authenticator, newToken(d.Audience), d.Logger), authorized(d.Authorizer, d.Logger),
			limitedInFlight(maxInFlight), negotiated)
		router.Post(PathDefault, d.judged(judging, writeDefaulted))
		router.Post(PathValidate, d.judged(judging, writeValidated))
	})
	return router
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

func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
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

// maxWait is how long a request waits for a slot.
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
