package servertime

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Reach notices when the API server did not answer. Watches reconnect by themselves, but each only
// after its own backoff: until then, caches show the state from before the outage.
type Reach struct {
	clock  clock.PassiveClock
	failed atomic.Int64 // when, in nanoseconds; 0: never
}

// BehindFor is how long after a failure caches may be behind: client-go's reflector waits up to 30
// seconds, doubled by jitter, and then has to list.
const BehindFor = 2 * time.Minute

// NewReach makes a Reach that knows of no failure.
func NewReach(c clock.PassiveClock) *Reach { return &Reach{clock: c} }

// Wrap returns a transport that notices requests without an answer. Fits rest.Config.Wrap.
func (r *Reach) Wrap(next http.RoundTripper) http.RoundTripper { return &reachTransport{r, next} }

// Behind reports whether caches may be behind the API server.
func (r *Reach) Behind() bool {
	failed := r.failed.Load()
	if failed == 0 {
		return false
	}
	since := r.clock.Now().UnixNano() - failed
	return since < int64(BehindFor)
}

type reachTransport struct {
	reach *Reach
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper. An answer of the 500s while caches are behind means that
// a watch has yet to begin again.
func (t *reachTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	switch {
	case err != nil && r.Context().Err() == nil,
		err == nil && r.Method == http.MethodGet && resp.StatusCode >= http.StatusInternalServerError && t.reach.Behind():
		t.reach.failed.Store(t.reach.clock.Now().UnixNano())
	}
	return resp, err
}

// WrappedRoundTripper lets client-go see the wrapped transport.
func (t *reachTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
