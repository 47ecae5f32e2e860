package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-chi/chi/v5"
	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
)

// New returns a router with /v1/default, /v1/validate and /openapi.json.
func New(d Decisions) chi.Router {
	router := chi.NewRouter()
	router.Use(recovered(d.Logger))
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		problem(http.StatusNotFound, "there is nothing at "+r.URL.Path).write(w, r)
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if router.Match(chi.NewRouteContext(), method, r.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		problem(http.StatusMethodNotAllowed, r.Method+" is not understood at "+r.URL.Path).write(w, r)
	})
	s := &service{Decisions: d, authenticating: semaphore.NewWeighted(maxAuthenticating), online: newSlots(), offline: newSlots()}
	router.Get(PathOpenAPI, serveOpenAPI)
	router.Post(PathDefault, s.answering(defaulted))
	router.Post(PathValidate, s.answering(validated))
	return router
}

// recovered turns a panic into a problem without internal details.
func recovered(log logr.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if reason := recover(); reason != nil {
					log.Error(fmt.Errorf("panic: %v\n%s", reason, debug.Stack()), "request failed", "method", r.Method, "path", r.URL.Path)
					problem(http.StatusInternalServerError, "the request failed inside Curfew").write(w, r)
				}
			}()
			next.ServeHTTP(w, r)
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

// problem is the answer to a request that fails. The detail names the field, the value and the fix,
// and nothing internal; errors are further ones, one line each.
func problem(status int, detail string, errors ...string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Errors: errors}
}

func tooBusy(w http.ResponseWriter) *Problem {
	w.Header().Set("Retry-After", "1")
	return problem(http.StatusServiceUnavailable, "too many requests are under way: try again in a second")
}

func (p *Problem) write(w http.ResponseWriter, r *http.Request) {
	p.Instance = r.URL.Path
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Title, p.Status)
		return
	}
	w.Header().Set("Content-Type", ProblemContentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	// The client may have disconnected.
	_, _ = w.Write(append(body, '\n'))
}

// openAPI describes every route of the router. A test holds the two together.
//
//go:embed openapi.json
var openAPI []byte

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI)
}
