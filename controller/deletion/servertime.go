package deletion

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/transport"
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
	if t, ok := s.skew.serverTime(); ok {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingFor)
	defer cancel()
	if err := s.ping(ctx); err != nil {
		return time.Time{}, errors.Join(errNoServerTime, err)
	}
	if t, ok := s.skew.serverTime(); ok {
		return t, nil
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
func (r *Reach) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport.Wrapper{Next: next, Do: r.notice}
}

// Behind reports whether caches may be behind the API server.
func (r *Reach) Behind() bool {
	failed := r.failed.Load()
	if failed == 0 {
		return false
	}
	since := r.clock.Now().UnixNano() - failed
	return since < int64(BehindFor)
}

// notice sends a request. An answer of the 500s while caches are behind means that a watch has yet
// to begin again.
func (r *Reach) notice(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	resp, err := next.RoundTrip(request)
	switch {
	case err != nil && request.Context().Err() == nil,
		err == nil && request.Method == http.MethodGet && resp.StatusCode >= http.StatusInternalServerError && r.Behind():
		r.failed.Store(r.clock.Now().UnixNano())
	}
	return resp, err
}

// Ping makes the API server answer, so that its Date header is seen. The answer itself does not
// matter.
type Ping func(ctx context.Context) error

// Skew estimates how far this host's clock is off the API server's from the Date header that each
// HTTP answer carries.
//
// The header is a whole second, cut off. An answer with Date D that was sent for at t0 and came in
// at t1 proves that the skew (this clock minus the server's) lies in (t0-D-1s, t1-D]. Each answer
// gives such an interval, and their intersection soon is milliseconds wide. An answer that
// contradicts it (another API server behind the same address, a clock that was set) starts it
// again. Wrap every transport to the API server with it; it learns from the answers that the API
// server writes itself, see dates.
type Skew struct {
	clock clock.PassiveClock
	// elapsed is the monotonic time between two readings. Tests replace it.
	elapsed func(from, to time.Time) time.Duration

	mu     sync.Mutex
	known  bool
	lo, hi int64 // nanoseconds
	at     int64 // wall clock of the last sample
	// received is the same reading with its monotonic part.
	received time.Time
	epoch    uint64
}

// NewSkew returns an estimate that knows nothing yet. The clock must be that of the engine.
func NewSkew(c clock.PassiveClock) *Skew {
	return &Skew{clock: c, elapsed: func(from, to time.Time) time.Duration { return to.Sub(from) }}
}

// Wrap returns a transport that learns from each answer that passes. Fits rest.Config.Wrap.
func (s *Skew) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport.Wrapper{Next: next, Do: s.learn}
}

func (s *Skew) learn(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	sent := s.clock.Now()
	resp, err := next.RoundTrip(r)
	if err == nil && resp.StatusCode < http.StatusInternalServerError && dates(r.URL.Path) {
		s.observe(epoch, sent, s.clock.Now(), resp.Header.Get("Date"))
	}
	return resp, err
}

// dates reports whether the API server itself writes the Date header of the answer for a path. The
// API server passes requests for an aggregated API on, and that API's server dates the answer; an
// error of the 500s may carry the Date of a proxy. So dates accepts only paths that are never
// passed on and that Curfew requests all the time. Segments before the API's own belong to the
// server's address.
func dates(path string) bool {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i, segment := range segments {
		rest := segments[i+1:]
		switch {
		case segment == "apis":
			return len(rest) > 1 && (rest[0] == "batch" || rest[0] == "coordination.k8s.io") && rest[1] == "v1"
		case segment == "api" && len(rest) > 0 && rest[0] == "v1":
			return !slices.Contains(rest, "proxy") // A Pod, a Service or a node answers.
		case segment == "version" && len(rest) == 0:
			return true
		}
	}
	return false
}

const (
	// JumpBound is how far wall and monotonic time may drift apart between two readings. Slewing
	// moves a clock by at most half a millisecond a second, and time daemons step from 128 ms on.
	JumpBound = 100 * time.Millisecond
	// PingEvery is how old the last Date header may be before the engine asks for a new one.
	PingEvery = 10 * time.Second
)

// drift is how fast two clocks may diverge, in parts per million: time daemons slew by no more.
const drift = 500

// Learn takes in the Date header of one answer. Wrap does so for each that passes.
func (s *Skew) Learn(sent, received time.Time, header string) {
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	s.observe(epoch, sent, received, header)
}

func (s *Skew) observe(epoch uint64, sent, received time.Time, header string) {
	date, err := http.ParseTime(header)
	if err != nil {
		return
	}
	t0, t1 := sent.UnixNano(), received.UnixNano()
	if d := time.Duration(t1-t0) - received.Sub(sent); d > JumpBound || d < -JumpBound || t1 < t0 {
		return // the clock was set while the answer was under way: it proves nothing
	}
	lo, hi := t0-date.UnixNano()-int64(time.Second), t1-date.UnixNano()

	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != s.epoch {
		return // sent for before the clock jumped
	}
	if s.known {
		wider := max(0, t1-s.at) / 1e6 * drift
		oldLo, oldHi := s.lo-wider, s.hi+wider
		if lo < oldHi && hi > oldLo {
			lo, hi = max(lo, oldLo), min(hi, oldHi)
		}
	}
	s.known, s.lo, s.hi, s.at, s.received = true, lo, hi, t1, received
}

// Invalidate forgets the estimate, for instance after a jump of the clock. Answers to requests
// under way are ignored as well.
func (s *Skew) Invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = false
	s.epoch++
}

// Estimate is an interval that holds the skew.
type Estimate struct {
	Known  bool
	Lo, Hi time.Duration
	Age    time.Duration // of the last sample
}

func (s *Skew) Estimate(wall int64) Estimate {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := max(0, wall-s.at)
	wider := age / 1e6 * drift
	return Estimate{Known: s.known, Lo: time.Duration(s.lo - wider), Hi: time.Duration(s.hi + wider), Age: time.Duration(age)}
}

// Proven is the smallest skew that the answers allow. If it is positive, this clock is ahead by at
// least that much.
func (e Estimate) Proven() time.Duration {
	switch {
	case !e.Known:
		return 0
	case e.Lo > 0:
		return e.Lo
	case e.Hi < 0:
		return e.Hi
	default:
		return 0
	}
}

// PingIn returns how long to wait, at least wait, until an answer would narrow the estimate most:
// when the server's second turns over if the skew lies in the middle of the interval. So each ping
// halves the interval, instead of repeating the last one.
func (e Estimate) PingIn(wall int64, wait time.Duration) time.Duration {
	if !e.Known {
		return wait
	}
	turn := (int64(e.Lo) + int64(e.Hi)) / 2
	past := (wall + int64(wait) - turn) % int64(time.Second)
	if past < 0 {
		past += int64(time.Second)
	}
	return wait + time.Second - time.Duration(past)
}
