package expire

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/test/builders"
)

func all(Request) bool { return true }

// After an outage everything is judged live for a while. The objects that are let through to see
// whether it is over do not wait for one another, and deletions go on.
func TestJudgedProbesEndAnOutage(t *testing.T) {
	var away atomic.Bool
	errAway := errors.New("connection refused")
	s := &tenants{slow: all, answers: func(context.Context, Request) Response {
		if away.Load() {
			return Response{Err: errAway}
		}
		return Response{Code: http.StatusOK}
	}}
	s.judge = func(_ context.Context, o Entry) (Judgement, error) {
		if away.Load() {
			return Judgement{}, &url.Error{Op: "Get", URL: "https://api", Err: errAway}
		}
		return Judgement{Verdict: Track, Object: o}, nil
	}
	among(t, Options{Behind: func() bool { return true }}, s, func(e *Engine, track track) {
		start := soon()
		track("Widget", "ci", 12, start)
		away.Store(true)
		pass(time.Until(start) + 30*time.Second)
		if len(s.breakers) == 0 || e.Tracked() != 12 {
			t.Fatalf("breakers %q, %d objects are left during the outage", s.breakers, e.Tracked())
		}
		away.Store(false)
		pass(11 * time.Second)
		if n := e.Tracked(); n != 0 {
			t.Errorf("%d are left 11 s after the outage", n)
		}
	})
}

// Rules change while an object waits for room that was not to be judged live any more, as the API
// server answers again. It is judged before its DELETE (S1).
func TestRulesChangeWhileItWaits(t *testing.T) {
	var looks, judgements, sent atomic.Int32
	s := &tenants{slow: all, answers: func(ctx context.Context, r Request) Response {
		sent.Add(1)
		return slowly(1500*time.Millisecond, http.StatusOK)(ctx, r)
	}}
	s.judge = func(context.Context, Entry) (Judgement, error) {
		judgements.Add(1)
		return Judgement{Verdict: Keep}, nil
	}
	behind := func() bool { return looks.Add(1) == 1 } // For the first one alone, as it begins.
	among(t, Options{MaxConcurrency: 1, Behind: behind}, s, func(e *Engine, track track) {
		start := soon()
		track("Widget", "ci", 2, start)
		pass(time.Until(start) + 500*time.Millisecond)
		if sent.Load() != 1 {
			t.Errorf("%d were sent, want 1", sent.Load())
		}
		e.RecheckNamespace("ci")
		pass(5 * time.Second)
		if sent.Load() != 1 || judgements.Load() != 1 || e.Tracked() != 0 {
			t.Errorf("%d DELETEs, %d live judgements, %d objects left: want 1, 1 and 0", sent.Load(), judgements.Load(), e.Tracked())
		}
	})
}

// Caches do not answer whether they agree with a live judgement. It ends after a while, and another
// one follows (S3).
func TestCachesThatHang(t *testing.T) {
	var judgements atomic.Int32
	var engine *Engine
	s := &tenants{slow: func(Request) bool { return false }, change: func(o *Entry) { o.Live = true }}
	s.judge = func(_ context.Context, o Entry) (Judgement, error) {
		if judgements.Add(1) == 1 {
			engine.RecheckNamespace("ci")
		}
		return Judgement{Verdict: Track, Object: o, Agrees: func(ctx context.Context) bool {
			<-ctx.Done()
			return false
		}}, nil
	}
	among(t, Options{}, s, func(e *Engine, track track) {
		engine = e
		start := soon()
		track("Widget", "ci", 1, start)
		pass(time.Until(start) + requestTimeout + 5*time.Second)
		if n, _ := s.worst(); n != 1 || judgements.Load() != 2 {
			t.Errorf("%d deleted after %d live judgements, want 1 after 2", n, judgements.Load())
		}
	})
}

// fixed is a clock that stands still.
type fixed struct {
	clock.RealClock
	at time.Time
}

func (f fixed) Now() time.Time { return f.at }

// confirmedAt are rules that were confirmed once.
type confirmedAt time.Time

func (confirmedAt) Want()                  {}
func (c confirmedAt) Confirmed() time.Time { return time.Time(c) }
func (confirmedAt) OnAnswer(wake func())   {}

// While the machine slept, rules that were confirmed before may have changed (S12).
func TestRulesAfterASleep(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		confirmed time.Time
		want      bool
	}{
		"confirmed":             {now.Add(-time.Second), true},
		"confirmed long ago":    {now.Add(-time.Minute), false},
		"the machine has slept": {builders.Slept(now.Add(-time.Second), time.Minute), false},
	} {
		e, err := New(Options{Triggers: deletes(&tenants{}), Rules: confirmedAt(test.confirmed), Clock: fixed{at: now}})
		must(t, err)
		options := widgets
		options.Judge = func(context.Context, Entry) (Judgement, error) { return Judgement{}, nil }
		kind, err := e.RegisterKind(options)
		must(t, err)
		e.Upsert(Entry{Kind: kind, Namespace: "ci", Name: "x", UID: "x", ResourceVersion: "7", Expiry: now.Add(-time.Minute), Source: "object"})
		e.mu.Lock()
		if got := e.rulesConfirmed(now.UnixNano()); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
		e.unlock()
	}
}
