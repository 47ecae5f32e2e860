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
func besides(t *testing.T, o Options, answers answers, f func(e *Engine, s *tenants, track func(kind string, n int, t time.Time))) {
	t.Helper()
	s := &tenants{answers: answers, slow: func(r Request) bool { return r.Kind != "Job" }}
	among(t, o, s, func(e *Engine, track track) {
		f(e, s, func(kind string, n int, instant time.Time) { track(kind, "ci", n, instant) })
	})
}

// One kind is not answered, late or with 429, however much of it is due. Other kinds wait for it at
// the beginning alone: a second for DELETEs that hang, and a few times a second for a 429 that is
// from the API server itself, which may be overloaded. Nothing else is paused, and the kind is tried
// again without end.
func TestKindInTrouble(t *testing.T) {
	throttled := func(origin deletion.Origin) answers {
		return func(context.Context, Request) Response {
			time.Sleep(5 * time.Millisecond)
			return Response{Code: http.StatusTooManyRequests, RetryAfter: 20 * time.Second, Origin: origin}
		}
	}
	const punctual = 20 * time.Millisecond
	for name, test := range map[string]struct {
		answers  answers
		first    time.Duration
		jobs     int // in the first time, at least
		late     time.Duration
		underway int // DELETEs of the kind, in the end
		event    string
	}{
		"no answer":                {hang, 2 * time.Second, 6, slowAfter, 1, "kind Widget Unreachable true"},
		"504 after 25 seconds":     {slowly(25*time.Second, http.StatusGatewayTimeout), 2 * time.Second, 6, slowAfter, 1, "kind Widget ServerErrors true"},
		"429 by the API server":    {throttled(deletion.FromServer), 15 * time.Second, 40, 1600 * time.Millisecond, 11, ""},
		"429 by an aggregated API": {throttled(deletion.FromResource), 15 * time.Second, 45, punctual, 11, ""},
	} {
		t.Run(name, func(t *testing.T) {
			besides(t, Options{}, test.answers, func(e *Engine, s *tenants, track func(string, int, time.Time)) {
				start := soon()
				track("Job", 2000, start.Add(-10*time.Second)) // The engine finds out how many requests may be under way.
				track("Widget", 1000, start)
				for i := range 600 {
					track("Job", 3, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
				}
				pass(time.Until(start) + 100*time.Millisecond)
				s.worst()
				pass(test.first)
				if n, late := s.worst(); n < test.jobs || late > test.late {
					t.Errorf("%d Jobs were deleted in the first %s, up to %s late: want %d and at most %s", n, test.first, late, test.jobs, test.late)
				}
				pass(90*time.Second - test.first)
				s.worst()
				pace := e.pace()
				pass(5 * time.Minute)
				if n, late := s.worst(); n != 900 || late > punctual {
					t.Errorf("%d Jobs were deleted in five minutes, up to %s late: want 900 and at most %s", n, late, punctual)
				}
				if n := e.pace(); n < pace {
					t.Errorf("%d may be under way because of Widgets, and %d before: want no fewer", n, pace)
				}
				s.peak()
				pass(time.Minute)
				if n := s.peak(); n < 1 || n > test.underway {
					t.Errorf("%d DELETEs of Widgets under way at once, want some, and at most %d", n, test.underway)
				}
				if test.event != "" && !slices.Equal(s.breakers, []string{test.event}) {
					t.Errorf("breakers: %q, want %q alone", s.breakers, test.event)
				}
				// It answers again: all of it is deleted.
				s.answer(slowly(5*time.Millisecond, http.StatusOK))
				pass(5 * time.Minute)
				if n := e.Tracked(); n != 0 {
					t.Errorf("%d are left five minutes after it answers again", n)
				}
			})
		})
	}
}

// answering are the options of an engine whose API server tells its time at once.
func answering() Options {
	skew := deletion.NewSkew(clock.RealClock{})
	return Options{Skew: skew, Ping: func(context.Context) error {
		now := time.Now()
		skew.Learn(now, now, now.UTC().Format(http.TimeFormat))
		return nil
	}}
}

// No DELETE is answered, and nothing else is due. If the API server answers when it is asked for
// its time, the kind is paused; else everything is.
func TestHangingKindAlone(t *testing.T) {
	for want, options := range map[string]Options{"kind Widget Unreachable true": answering(), "apiserver Widget Unreachable true": {}} {
		besides(t, options, hang, func(_ *Engine, s *tenants, track func(string, int, time.Time)) {
			track("Widget", 100, time.Now())
			pass(2 * time.Minute)
			if !slices.Equal(s.breakers, []string{want}) {
				t.Errorf("breakers: %q, want %q", s.breakers, want)
			}
		})
	}
}
