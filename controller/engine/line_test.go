package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// judged runs an engine whose Widgets are judged by judge, in synthetic time. track tracks one that
// is judged live first.
func judged(t *testing.T, o Options, s *tenants, judge Judge, f func(e *Engine, track func(namespace string, n int, at time.Time, live bool))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Triggers = deletes(s)
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		options := widgets
		options.Judge = judge
		kind, err := e.RegisterKind(options)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		i := 0
		f(e, func(namespace string, n int, at time.Time, live bool) {
			for range n {
				i++
				name := fmt.Sprintf("j%05d", i)
				e.Upsert(Entry{
					Kind: kind, Namespace: namespace, Name: name, UID: uidOf(name, i), ResourceVersion: "7", Expiry: at, Source: "object", Live: live, Epoch: e.Epoch(),
				})
			}
		})
		cancel()
		<-done
	})
}

// Judgements come to their end while as many DELETEs are under way as may be. Those that follow
// from them wait until there is room, and none is lost. Nor does one go by what it was judged by
// before it waited.
func TestJudgedWaitForRoom(t *testing.T) {
	s := &tenants{slow: func(Request) bool { return true }, answers: slowly(700*time.Millisecond, http.StatusOK)}
	var judgements atomic.Int32
	judge := func(_ context.Context, o Entry) (Judgement, error) {
		judgements.Add(1)
		time.Sleep(500 * time.Millisecond)
		return Judgement{Verdict: Track, Object: o}, nil
	}
	judged(t, Options{MaxConcurrency: 4}, s, judge, func(e *Engine, track func(string, int, time.Time, bool)) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("ci", 4, start, true)
		track("ci", 4, start.Add(100*time.Millisecond), false)
		pass(time.Until(start) + 600*time.Millisecond)
		e.RecheckNamespace("ci")
		pass(10 * time.Second)
		if s.most > 4 {
			t.Errorf("%d DELETEs were under way at once, want at most 4", s.most)
		}
		if n := e.Tracked(); n != 0 || s.underway != 0 {
			t.Errorf("%d are left, %d under way", n, s.underway)
		}
		if n := judgements.Load(); n != 8 {
			t.Errorf("%d live judgements, want 8: what waited while its namespace changed is judged again", n)
		}
		if len(e.waiting) != 0 {
			t.Errorf("%d still wait for a slot", len(e.waiting))
		}
	})
}

// Everything is paused, as after a 429, while an object is judged. Its DELETE waits, and follows
// from a judgement that is not old.
func TestJudgedWaitNotForLong(t *testing.T) {
	var at, old atomic.Int64
	s := &tenants{slow: func(Request) bool { return true }, answers: func(context.Context, Request) Response {
		old.Store(time.Now().UnixNano() - at.Load())
		return Response{Code: http.StatusOK}
	}}
	judge := func(_ context.Context, o Entry) (Judgement, error) {
		time.Sleep(500 * time.Millisecond)
		at.Store(time.Now().UnixNano())
		return Judgement{Verdict: Track, Object: o}, nil
	}
	judged(t, Options{}, s, judge, func(e *Engine, track func(string, int, time.Time, bool)) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("ci", 1, start, true)
		pass(time.Until(start) + 100*time.Millisecond)
		e.mu.Lock()
		e.pause.to, e.pause.next = e.read().mono+20*time.Second, e.read().mono+20*time.Second
		e.mu.Unlock()
		pass(19 * time.Second)
		if n := e.Tracked(); n != 1 {
			t.Errorf("%d are left during the pause, want 1", n)
		}
		pass(5 * time.Second)
		if n, old := e.Tracked(), time.Duration(old.Load()); n != 0 || old > maxInLine {
			t.Errorf("%d are left; the judgement was %s old: want none, and at most %s", n, old, maxInLine)
		}
	})
}

// After an outage everything is judged live for a while. The objects that are let through to see
// whether it is over do not wait for one another, and deletions go on.
func TestJudgedProbesEndAnOutage(t *testing.T) {
	var away atomic.Bool
	errAway := errors.New("connection refused")
	s := &tenants{slow: func(Request) bool { return true }, answers: func(context.Context, Request) Response {
		if away.Load() {
			return Response{Err: errAway}
		}
		return Response{Code: http.StatusOK}
	}}
	judge := func(_ context.Context, o Entry) (Judgement, error) {
		if away.Load() {
			return Judgement{}, &url.Error{Op: "Get", URL: "https://api", Err: errAway}
		}
		return Judgement{Verdict: Track, Object: o}, nil
	}
	judged(t, Options{Behind: func() bool { return true }}, s, judge, func(e *Engine, track func(string, int, time.Time, bool)) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("ci", 12, start, false)
		away.Store(true)
		pass(time.Until(start) + 30*time.Second)
		if open := e.breakers.open; open == 0 || e.Tracked() != 12 {
			t.Fatalf("%d breakers are open, %d objects are left during the outage", open, e.Tracked())
		}
		away.Store(false)
		pass(11 * time.Second)
		if n := e.Tracked(); n != 0 {
			t.Errorf("%d are left 11 s after the outage", n)
		}
	})
}

// A namespace's live judgements hang, so many of them that they would take all slots for long.
// Others of the same kind are judged live as well, and on time.
func TestSlowJudgementsOfANamespace(t *testing.T) {
	s := &tenants{slow: func(Request) bool { return false }}
	var hanging, most atomic.Int32
	judge := func(ctx context.Context, o Entry) (Judgement, error) {
		if o.Namespace != "slow" {
			time.Sleep(5 * time.Millisecond)
			return Judgement{Verdict: Track, Object: o}, nil
		}
		most.Store(max(most.Load(), hanging.Add(1)))
		defer hanging.Add(-1)
		<-ctx.Done()
		return Judgement{}, ctx.Err()
	}
	judged(t, Options{}, s, judge, func(e *Engine, track func(string, int, time.Time, bool)) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("slow", 2000, start, true)
		for i := range 120 {
			track("ci", 1, start.Add(time.Duration(i)*time.Second+500*time.Millisecond), true)
		}
		pass(time.Until(start) + 10*time.Second)
		if n, most := s.worst(); n != 10 || most > 1100*time.Millisecond {
			t.Errorf("%d others were deleted in 10 s, up to %s late: want 10, and at most 1.1s", n, most)
		}
		most.Store(0)
		pass(110 * time.Second)
		if n, most := s.worst(); n != 110 || most > 20*time.Millisecond {
			t.Errorf("%d others were deleted in 110 s, up to %s late: want 110, and at most 20ms", n, most)
		}
		if n := most.Load(); n > 64 {
			t.Errorf("%d of the slow were judged at once", n)
		}
	})
}
