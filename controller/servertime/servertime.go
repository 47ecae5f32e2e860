package servertime

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// ServerTime is the API server's time. Curfew stamps objects with it: a stamp from a clock that is
// behind would still shorten an object's life after that clock was corrected (S6).
type ServerTime struct {
	skew *Skew
	ping Ping
}

// NewServerTime reads the time off the estimate of the skew. Ping makes the API server answer where
// its last answer is old.
func NewServerTime(skew *Skew, ping Ping) *ServerTime { return &ServerTime{skew: skew, ping: ping} }

// errNoServerTime means that nothing may be stamped now.
var errNoServerTime = errors.New("the API server's time is not known")

// Now is the latest that the API server's clock may show, so that a stamp is never older than it
// should be. An error means that the time is not known: do not stamp.
func (s *ServerTime) Now(ctx context.Context) (time.Time, error) {
	if at, ok := s.skew.serverTime(); ok {
		return at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingFor)
	defer cancel()
	if err := s.ping(ctx); err != nil {
		return time.Time{}, errors.Join(errNoServerTime, err)
	}
	if at, ok := s.skew.serverTime(); ok {
		return at, nil
	}
	return time.Time{}, errNoServerTime
}

const (
	// freshFor is the maximum age of the answer that the time is derived from. The engine asks for
	// answers more often.
	freshFor = 3 * PingEvery
	// pingFor bounds how long a stamp waits for an answer. A review waits for it.
	pingFor = 2 * time.Second
)

// serverTime returns the latest time that the API server's clock may show. It counts from the last
// answer by monotonic time, so that setting the clock in between has no effect. It returns false if
// wall and monotonic time disagree about the time since that answer, as after the host slept.
func (s *Skew) serverTime() (time.Time, bool) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return time.Time{}, false
	}
	since := s.elapsed(s.received, now)
	if d := time.Duration(now.UnixNano()-s.at) - since; d > JumpBound || d < -JumpBound {
		s.known = false
		s.epoch++
		return time.Time{}, false
	}
	if since < 0 || since > freshFor {
		return time.Time{}, false
	}
	wider := since / 1e6 * drift
	return s.received.Add(since + wider - time.Duration(s.lo)).Round(0), true
}

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
