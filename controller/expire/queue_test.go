package expire

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
)

// pace is how many requests may be under way, when the engine does not look for the least latency.
func (e *Engine) pace() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conc.Steady()
}

// answers is how an API server answers DELETEs.
type answers = func(context.Context, Request) Response

// besides runs an engine with Jobs, and with Widgets and other kinds that are answered so.
func besides(t *testing.T, o Options, answers answers, f func(e *Engine, s *tenants, track func(kind string, n int, at time.Time))) {
	t.Helper()
	s := &tenants{answers: answers, slow: func(r Request) bool { return r.Kind != "Job" }}
	among(t, o, s, func(e *Engine, track track) {
		f(e, s, func(kind string, n int, at time.Time) { track(kind, "ci", n, at) })
	})
}

// The DELETEs of one kind hang until they time out, or until the API server gives up, as behind a
// webhook that does not answer. Whatever is due of it, other kinds wait for it once, a second, and
// from then on not at all; nothing else is paused, and it is tried again without end.
func TestHangingKind(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(context.Context, Request) Response
		event   string
	}{
		"no answer":            {hang, "kind Widget Unreachable true"},
		"504 after 25 seconds": {slowly(25*time.Second, http.StatusGatewayTimeout), "kind Widget ServerErrors true"},
	} {
		t.Run(name, func(t *testing.T) {
			besides(t, Options{}, c.answers, func(e *Engine, s *tenants, track func(string, int, time.Time)) {
				start := soon()
				track("Job", 2000, start.Add(-10*time.Second)) // The engine finds out how many requests may be under way.
				track("Widget", 1000, start)
				for i := range 300 {
					track("Job", 3, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
				}
				pass(time.Until(start))
				s.worst()
				pace := e.pace()
				pass(2 * time.Second)
				if n, late := s.worst(); n != 6 || late > slowAfter {
					t.Errorf("%d Jobs were deleted in the first two seconds, up to %s late: want 6 and at most %s", n, late, slowAfter)
				}
				pass(5 * time.Minute)
				if n, late := s.worst(); n != 894 || late > 20*time.Millisecond {
					t.Errorf("%d Jobs were deleted in five minutes, up to %s late: want 894 and at most 20ms", n, late)
				}
				if n := e.pace(); n < pace {
					t.Errorf("%d may be under way because of Widgets, and %d before: want no fewer", n, pace)
				}
				s.peak()
				pass(time.Minute)
				if n := s.peak(); n > 1 {
					t.Errorf("%d DELETEs of Widgets under way at once, want at most %d", n, 1)
				}
				if !slices.Equal(s.breakers, []string{c.event}) {
					t.Errorf("breakers: %q, want %q alone", s.breakers, c.event)
				}
				// It answers again: all of it is deleted.
				s.answer(slowly(5*time.Millisecond, http.StatusOK))
				pass(3 * time.Minute)
				if n := e.Tracked(); n != 0 {
					t.Errorf("%d are left three minutes after it answers again", n)
				}
			})
		})
	}
}

// One kind always gets 429. If the answer is from the API server itself, everything pauses for a
// second a few times, since it may be overloaded. Answers to other kinds show that it is not: from
// then on only that kind waits, and is tried again without end. If the answer is from the server of
// the kind, other kinds never wait.
func TestThrottledKind(t *testing.T) {
	for name, test := range map[string]struct {
		origin deletion.Origin
		jobs   int // in the first 15 seconds, at least
		late   time.Duration
	}{
		"by the API server":    {deletion.FromServer, 40, 1600 * time.Millisecond},
		"by an aggregated API": {deletion.FromResource, 45, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			many := func(context.Context, Request) Response {
				time.Sleep(5 * time.Millisecond)
				return Response{Code: http.StatusTooManyRequests, RetryAfter: 20 * time.Second, Origin: test.origin}
			}
			besides(t, Options{}, many, func(e *Engine, s *tenants, track func(string, int, time.Time)) {
				start := soon()
				track("Job", 2000, start.Add(-10*time.Second))
				track("Widget", 1000, start)
				for i := range 600 {
					track("Job", 3, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
				}
				pass(time.Until(start) + 100*time.Millisecond)
				s.worst()
				pass(15 * time.Second)
				if n, late := s.worst(); n < test.jobs || late > test.late {
					t.Errorf("%d Jobs were deleted in 15 seconds, up to %s late: want %d and at most %s", n, late, test.jobs, test.late)
				}
				pass(75 * time.Second)
				s.worst()
				pace := e.pace()
				pass(5 * time.Minute)
				if n, late := s.worst(); n != 900 || late > 20*time.Millisecond {
					t.Errorf("%d Jobs were deleted in five minutes, up to %s late: want 900 and at most 20ms", n, late)
				}
				if n := e.pace(); n < pace {
					t.Errorf("%d may be under way because of Widgets, and %d before: want no fewer", n, pace)
				}
				s.peak()
				pass(time.Minute)
				if n := s.peak(); n < 1 || n > 1000/100+1 {
					t.Errorf("%d DELETEs of Widgets under way at once, want a few, to see whether it is over", n)
				}
				s.answer(slowly(5*time.Millisecond, http.StatusOK))
				pass(5 * time.Minute)
				if n := e.Tracked(); n != 0 {
					t.Errorf("%d are left five minutes after it answers again", n)
				}
			})
		})
	}
}

// No DELETE is answered, and nothing else is due. If the API server answers when it is asked for
// its time, the kind is paused; else everything is.
func TestHangingKindAlone(t *testing.T) {
	skew := deletion.NewSkew(clock.RealClock{})
	answers := Options{Skew: skew, Ping: func(context.Context) error {
		now := time.Now()
		skew.Learn(now, now, now.UTC().Format(http.TimeFormat))
		return nil
	}}
	for want, options := range map[string]Options{"kind Widget Unreachable true": answers, "apiserver Widget Unreachable true": {}} {
		besides(t, options, hang, func(_ *Engine, s *tenants, track func(string, int, time.Time)) {
			track("Widget", 100, time.Now())
			pass(2 * time.Minute)
			if !slices.Equal(s.breakers, []string{want}) {
				t.Errorf("breakers: %q, want %q", s.breakers, want)
			}
		})
	}
}
