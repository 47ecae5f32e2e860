package api

import (
	"context"
	"net/http"
)

// crowded lets only so many requests be under way at once. Offline ones, which need no token, are
// counted apart.
func crowded(limit int) func(http.Handler) http.Handler {
	pools := map[bool]chan struct{}{false: make(chan struct{}, limit), true: make(chan struct{}, limit)}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pool := pools[queryOf(r).offline]
			select {
			case pool <- struct{}{}:
				defer func() { <-pool }()
				next.ServeHTTP(w, r)
			default:
				tooBusy(w, r)
			}
		})
	}
}

// shed refuses requests while admission has large objects to review: they can wait, and admission
// cannot.
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

// workshops are for requests that ask the cluster (false) and for offline ones (true).
type workshops map[bool]workshop

func newWorkshops() workshops {
	return workshops{false: make(workshop, maxAtWork), true: make(workshop, maxAtWork)}
}

// workshop has a bench for each request that is being judged; the others wait for one.
type workshop chan struct{}

// enter reports false where the context ended first.
func (w workshop) enter(ctx context.Context) bool {
	select {
	case w <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w workshop) leave() { <-w }
