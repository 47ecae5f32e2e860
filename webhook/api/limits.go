package api

import (
	"net/http"

	"golang.org/x/sync/semaphore"
)

// slots bounds requests that ask the cluster (false) and offline ones (true), each for itself:
// offline requests need no token, and must not keep out those that have one.
type slots map[bool]*semaphore.Weighted

func newSlots(limit int64) slots {
	return slots{false: semaphore.NewWeighted(limit), true: semaphore.NewWeighted(limit)}
}

func (s slots) of(r *http.Request) *semaphore.Weighted { return s[queryOf(r).offline] }

// limitedInFlight refuses requests beyond a limit.
func limitedInFlight(limit int64) func(http.Handler) http.Handler {
	slots := newSlots(limit)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slots.of(r).TryAcquire(1) {
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
