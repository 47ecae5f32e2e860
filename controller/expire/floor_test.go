package expire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy/judging"
)

// busy is an API server that others keep busy: it answers everything, late.
type busy struct {
	mu      sync.Mutex
	random  *rand.Rand
	spike   time.Duration // each twentieth answer
	refuses bool          // each twentieth DELETE
	count   int
	sent    []time.Time
	deleted int
}

func (s *busy) answer(ctx context.Context) {
	s.mu.Lock()
	s.count++
	wait := 200*time.Millisecond + time.Duration(s.random.Int64N(int64(200*time.Millisecond)))
	if s.spike > 0 && s.count%20 == 0 {
		wait = s.spike
	}
	s.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

func (s *busy) Delete(ctx context.Context, r Request) Response {
	s.mu.Lock()
	s.sent = append(s.sent, time.Now())
	s.mu.Unlock()
	s.answer(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses && len(s.sent)%20 == 0 {
		return Response{Code: http.StatusTooManyRequests, Origin: deletion.FromServer, RetryAfter: 30 * time.Second}
	}
	s.deleted++
	return Response{Code: 200}
}

// TestFloor: while the API server answers, however late, at least one DELETE a second is sent.
func TestFloor(t *testing.T) {
	for name, test := range map[string]struct {
		live    bool
		spike   time.Duration
		changes time.Duration // of the namespace
		reads   bool
		refuses bool
	}{
		"slow":                        {},
		"spikes":                      {spike: 1300 * time.Millisecond},
		"live":                        {live: true},
		"live, spikes":                {live: true, spike: 1300 * time.Millisecond},
		"live, long spikes":           {live: true, spike: 5 * time.Second},
		"the namespace changes":       {changes: 300 * time.Millisecond},
		"live, the namespace changes": {live: true, changes: 300 * time.Millisecond},
		"pauses":                      {reads: true},
		"pauses, spikes":              {reads: true, spike: 1300 * time.Millisecond},
		"some are refused":            {refuses: true},
		"live, some are refused":      {live: true, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &busy{random: rand.New(rand.NewPCG(1, 2)), spike: test.spike, refuses: test.refuses}
				options := Options{Triggers: deletes(s)}
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				if test.reads {
					options.Pauses = deletion.NewGate(deletion.GateOptions{Clock: clock.RealClock{}, Log: logr.Discard(), Read: func(ctx context.Context) ([]judging.Pause, error) {
						s.answer(ctx)
						return nil, ctx.Err()
					}})
					all.Go(func() { _ = options.Pauses.Run(ctx) })
				}
				e, err := New(options)
				must(t, err)
				kindOptions := widgets
				kindOptions.Judge = func(ctx context.Context, o Entry) (Judgement, error) {
					s.answer(ctx) // the object,
					s.answer(ctx) // and its namespace
					return Judgement{Verdict: Track, Object: o, Agrees: func(context.Context) bool { return true }}, ctx.Err()
				}
				kind := registered(t, e, kindOptions)
				all.Go(func() { _ = e.Run(ctx) })
				began := time.Now()
				const n = 1000
				for i := range n {
					name := fmt.Sprintf("j%05d", i)
					e.Upsert(Entry{Kind: kind, Namespace: fmt.Sprintf("team-%d", i%2), Name: name, UID: uidOf(name, i), ResourceVersion: "7", Expiry: began, Source: "object", Live: test.live})
				}
				if test.changes > 0 {
					all.Go(func() {
						for ctx.Err() == nil {
							time.Sleep(test.changes)
							e.RecheckNamespace("team-0")
							e.RecheckNamespace("team-1")
						}
					})
				}
				for e.Tracked() > 0 && time.Since(began) < 15*time.Minute {
					pass(time.Second)
				}
				s.mu.Lock()
				last, worst := began, time.Duration(0)
				for _, instant := range s.sent[:min(n, len(s.sent))] { // In the end, all that are left may have been refused.
					worst = max(worst, instant.Sub(last))
					last = instant
				}
				t.Logf("%d DELETEs of %d in %s, worst gap %s, limit %d", len(s.sent), s.deleted, time.Since(began), worst, e.conc.Limit())
				// Nothing is sent faster than the API server answers.
				limit := max(1500*time.Millisecond, test.spike)
				if test.live && test.refuses {
					// The answer takes up to 0.4 s, the wait a second, and a judgement two answers.
					limit = 2200 * time.Millisecond
				}
				if worst > limit || s.deleted < n {
					t.Errorf("worst gap %s, want at most %s; %d deleted, want %d", worst, limit, s.deleted, n)
				}
				s.mu.Unlock()
				cancel()
				all.Wait()
			})
		})
	}
}
