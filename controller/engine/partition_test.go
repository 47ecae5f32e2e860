package engine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tenants is an API server on which the DELETEs of some namespaces are answered so, and all others
// at once. It notes how late those are.
type tenants struct {
	mu        sync.Mutex
	answers   func(context.Context, Request) Response
	slow      func(Request) bool
	change    func(*Entry) // changes each entry before it is tracked, if not nil
	late      []time.Duration
	underway  int
	most      int
	kindPause []string
}

func (s *tenants) Delete(ctx context.Context, r Request) Response {
	s.mu.Lock()
	answers, slow := s.answers, s.slow(r)
	s.mu.Unlock()
	if slow {
		s.count(1)
		defer s.count(-1)
		return answers(ctx, r)
	}
	time.Sleep(5 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, time.Since(r.Expiry))
	return Response{Code: http.StatusOK}
}

func (s *tenants) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underway += n
	s.most = max(s.most, s.underway)
}

// worst is how late the worst of the others was so far, and how many there were. It forgets them.
func (s *tenants) worst() (n int, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = len(s.late); n > 0 {
		most = slices.Max(s.late)
	}
	s.late, s.most = nil, s.underway
	return n, most
}

// among runs an engine for them in synthetic time. track tracks n objects of a namespace.
func among(t *testing.T, s *tenants, f func(e *Engine, track func(namespace string, n int, at time.Time))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Options{Triggers: deletes(s), OnBreaker: func(ev BreakerEvent) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if ev.Class == classKind || ev.Class == classAPIServer {
				s.kindPause = append(s.kindPause, ev.Message)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		kind, err := e.RegisterKind(widgets)
		if err != nil {
			t.Fatal(err)
		}
		options := widgets
		options.Kind, options.Resource.Resource, options.Namespaced = "ClusterWidget", "clusterwidgets", false
		cluster, err := e.RegisterKind(options)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		i := 0
		f(e, func(namespace string, n int, at time.Time) {
			for range n {
				i++
				o := Entry{
					Kind: kind, Namespace: namespace, Name: fmt.Sprintf("j%05d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i)),
					ResourceVersion: "7", Expiry: at, Source: "object",
				}
				if namespace == "" {
					o.Kind = cluster
				}
				if s.change != nil {
					s.change(&o)
				}
				e.Upsert(o)
			}
		})
		cancel()
		<-done
	})
}

// The DELETE webhooks of some namespaces take 9 s, or hang. Others of the same kind wait for them
// once, a second, and for others that turn out to be as slow a tenth of that.
func TestSlowNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces int
		answers    func(context.Context, Request) Response
		first      time.Duration // how late others may be in the first half minute
	}{
		"one takes 9 s":   {1, slowly(9*time.Second, http.StatusOK), 1100 * time.Millisecond},
		"one hangs":       {1, hang, 1100 * time.Millisecond},
		"twenty take 9 s": {20, slowly(9*time.Second, http.StatusOK), 4 * time.Second},
		"twenty hang":     {20, hang, 4 * time.Second},
		"cluster-scoped":  {0, hang, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := &tenants{answers: test.answers, slow: func(r Request) bool { return r.Namespace == "" || strings.HasPrefix(r.Namespace, "slow") }}
			among(t, s, func(e *Engine, track func(string, int, time.Time)) {
				start := time.Now().Truncate(time.Second).Add(time.Minute)
				for i := range test.namespaces {
					track(fmt.Sprint("slow", i), 500, start)
				}
				track("", 500, start)
				for i := range 1500 {
					track(fmt.Sprint("ci", i%7), 1, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
				}
				pass(time.Until(start) + 30*time.Second)
				if n, most := s.worst(); n < 29 || most > test.first {
					t.Errorf("%d others were deleted in half a minute, up to %s late: want 29, and at most %s", n, most, test.first)
				}
				pass(time.Minute)
				s.worst() // What was sent before they were known to be slow is answered.
				pass(20 * time.Minute)
				s.mu.Lock()
				underway := s.most
				s.mu.Unlock()
				if n, most := s.worst(); n < 1200 || most > 20*time.Millisecond {
					t.Errorf("%d others were deleted in 20 minutes, up to %s late: want 1200, and at most 20ms", n, most)
				}
				if underway > DefaultMaxConcurrency/2 || underway > maxSlowAll {
					t.Errorf("%d of the slow were under way at once, want at most %d", underway, maxSlowAll)
				}
				if slices.ContainsFunc(s.kindPause, func(message string) bool { return !strings.Contains(message, "ClusterWidget") }) {
					t.Errorf("all of a kind waits for some namespaces: %q", s.kindPause)
				}
				// They are answered again: all of it is deleted, and nothing is remembered.
				s.mu.Lock()
				s.answers = slowly(5*time.Millisecond, http.StatusOK)
				s.mu.Unlock()
				pass(15 * time.Minute)
				if n := e.Tracked(); n != 0 {
					t.Errorf("%d are left", n)
				}
				for _, q := range e.queues {
					if len(q.own) > 0 || q.rest.slow || e.stuckShares != 0 {
						t.Errorf("%d partitions of %s are left, %d stuck", len(q.own), q.of.Resource, e.stuckShares)
					}
				}
			})
		})
	}
}

// Live judgements hang, as while a list of policies is not answered. Objects of the same namespace
// and kind that need none are deleted on time, whether it was known beforehand that the others do,
// or turned out by a conflict, and however few slots there are.
func TestBlockedJudgementDelaysNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		most, blocked int
		late          time.Duration
	}{
		"one, one slot": {1, 1, 20 * time.Millisecond}, "after a conflict, one slot": {1, 0, 20 * time.Millisecond}, "many": {DefaultMaxConcurrency, 1000, 20 * time.Millisecond},
		"many, four slots": {4, 1000, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &tenants{slow: func(r Request) bool { return r.Name == "conflict" }, answers: slowly(time.Millisecond, http.StatusConflict)}
				e, err := New(Options{Triggers: deletes(s), MaxConcurrency: test.most})
				if err != nil {
					t.Fatal(err)
				}
				options, judging := widgets, 0
				options.Judge = func(ctx context.Context, _ Entry) (Judgement, error) {
					s.count(1)
					defer s.count(-1)
					<-ctx.Done()
					return Judgement{}, ctx.Err()
				}
				kind, err := e.RegisterKind(options)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- e.Run(ctx) }()
				track := func(name string, i int, at time.Time, live bool, epoch uint64) {
					e.Upsert(Entry{
						Kind: kind, Namespace: "ci", Name: name, UID: uidOf(name, i), ResourceVersion: "7", Expiry: at, Source: name, Live: live, Epoch: epoch,
					})
				}
				start := time.Now().Truncate(time.Second).Add(time.Minute)
				for i := range test.blocked {
					track("outdated", i, start, false, e.Epoch())
					track("live", i, start, true, e.Epoch())
				}
				e.RecheckIn("ci", kind)
				track("conflict", 0, start, false, e.Epoch())
				for i := range 100 {
					track("other", i, start.Add(time.Duration(i)*time.Second+500*time.Millisecond), false, e.Epoch())
				}
				pass(time.Until(start) + 2*time.Minute)
				s.mu.Lock()
				judging = s.most
				s.mu.Unlock()
				if n, most := s.worst(); n != 100 || most > test.late {
					t.Errorf("%d others were deleted, up to %s late: want 100 and at most %s", n, most, test.late)
				}
				if judging > test.most+maxSlow {
					t.Errorf("%d live judgements were under way, want at most %d", judging, test.most+maxSlow)
				}
				cancel()
				<-done
			})
		})
	}
}
