package engine

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"curfew.dev/curfew/test/builders"
)

// Rules change while an object waits for room that was not to be judged live any more, as the API
// server answers again. It is judged before its DELETE (S1).
func TestRulesChangeWhileItWaits(t *testing.T) {
	var looks, judgements, sent atomic.Int32
	s := &tenants{slow: func(Request) bool { return true }, answers: func(ctx context.Context, r Request) Response {
		sent.Add(1)
		return slowly(1500*time.Millisecond, http.StatusOK)(ctx, r)
	}}
	judge := func(context.Context, Entry) (Judgement, error) {
		judgements.Add(1)
		return Judgement{Verdict: Keep}, nil
	}
	behind := func() bool { return looks.Add(1) == 1 } // For the first one alone, as it begins.
	judged(t, Options{MaxConcurrency: 1, Behind: behind}, s, judge, func(e *Engine, track func(string, int, time.Time, bool)) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("ci", 2, start, false)
		pass(time.Until(start) + 500*time.Millisecond)
		if len(e.waiting) != 1 || sent.Load() != 1 {
			t.Errorf("%d wait and %d were sent, want 1 each", len(e.waiting), sent.Load())
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
	var of *Engine
	s := &tenants{slow: func(Request) bool { return false }}
	judge := func(_ context.Context, o Entry) (Judgement, error) {
		if judgements.Add(1) == 1 {
			of.RecheckNamespace("ci")
		}
		return Judgement{Verdict: Track, Object: o, Agrees: func(ctx context.Context) bool {
			<-ctx.Done()
			return false
		}}, nil
	}
	judged(t, Options{}, s, judge, func(e *Engine, track func(string, int, time.Time, bool)) {
		of = e
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("ci", 1, start, true)
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
		if err != nil {
			t.Fatal(err)
		}
		options := widgets
		options.Judge = func(context.Context, Entry) (Judgement, error) { return Judgement{}, nil }
		kind, err := e.RegisterKind(options)
		if err != nil {
			t.Fatal(err)
		}
		e.Upsert(Entry{Kind: kind, Namespace: "ci", Name: "x", UID: "x", ResourceVersion: "7", Expiry: now.Add(-time.Minute), Source: "object"})
		e.mu.Lock()
		if got := e.rulesConfirmed(now.UnixNano()); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
		e.unlock()
	}
}
