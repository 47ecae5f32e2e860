package expire

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/deletion"
)

var widgets = KindOptions{
	Type: deletion.Type{
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true,
	},
	Trigger: "ttl",
	Judge:   func(context.Context, Entry) (Judgement, error) { return Judgement{Verdict: Gone}, nil },
}

// tenants is an API server that answers some DELETEs so, and all others at once. It notes how late
// those are.
type tenants struct {
	mu       sync.Mutex
	answers  func(context.Context, Request) Response
	slow     func(Request) bool
	judge    Judge        // of all kinds, if not nil
	change   func(*Entry) // changes each entry before it is tracked, if not nil
	late     []time.Duration
	underway int
	most     int
	breakers []string
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

// answer changes how the slow ones are answered.
func (s *tenants) answer(as func(context.Context, Request) Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = as
}

// worst is how late the worst of the others was so far, and how many there were. It forgets them.
func (s *tenants) worst() (n int, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = len(s.late); n > 0 {
		most = slices.Max(s.late)
	}
	s.late = nil
	return n, most
}

// peak is how many of the slow were under way at once since the last call.
func (s *tenants) peak() (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, s.most = s.most, s.underway
	return most
}

func (s *tenants) opened(ev BreakerEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev.Class != classClock {
		s.breakers = append(s.breakers, fmt.Sprintf("%s %s %s %v", ev.Class, ev.Kind, ev.Reason, ev.Open))
	}
}

// track tracks n objects of a kind.
type track func(kind, namespace string, n int, t time.Time)

// among runs an engine for them in synthetic time.
func among(t *testing.T, o Options, s *tenants, f func(e *Engine, track track)) {
	t.Helper()
	o.OnBreaker = s.opened
	running(t, o, s, func(t *testing.T, e *Engine) {
		kinds, i := map[string]Kind{}, 0
		f(e, func(kind, namespace string, n int, instant time.Time) {
			if kinds[kind] == 0 {
				options := widgets
				options.Kind, options.Resource.Resource, options.Namespaced = kind, strings.ToLower(kind)+"s", namespace != ""
				if s.judge != nil {
					options.Judge = s.judge
				}
				kinds[kind] = registered(t, e, options)
			}
			for range n {
				i++
				name := fmt.Sprintf("j%05d", i)
				o := Entry{
					Kind: kinds[kind], Namespace: namespace, Name: name, UID: uidOf(name, i), ResourceVersion: "7",
					Expiry: instant, Source: "object", Epoch: e.Epoch(),
				}
				if s.change != nil {
					s.change(&o)
				}
				e.Upsert(o)
			}
		})
	})
}

// soon is a full second, a minute from now.
func soon() time.Time { return time.Now().Truncate(time.Second).Add(time.Minute) }

func hang(ctx context.Context, _ Request) Response {
	<-ctx.Done()
	return Response{Err: ctx.Err()}
}

func slowly(took time.Duration, code int) func(context.Context, Request) Response {
	return func(context.Context, Request) Response {
		time.Sleep(took)
		return Response{Code: code}
	}
}

// pausesAll matches breakers that hold back objects of all namespaces.
var pausesAll = regexp.MustCompile("^(kind Widget|apiserver) ")

// The DELETE webhooks of some namespaces take 9 s, or hang. Others of the same kind wait for them
// once, a second, and for others that turn out to be as slow a tenth of that.
func TestSlowNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces int
		answers    func(context.Context, Request) Response
		first      time.Duration // how late others may be in the first half minute
	}{
		"one takes 9 s":  {1, slowly(9*time.Second, http.StatusOK), 1100 * time.Millisecond},
		"twenty hang":    {20, hang, 5 * time.Second},
		"cluster-scoped": {0, hang, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := &tenants{answers: test.answers, slow: func(r Request) bool { return r.Namespace == "" || strings.HasPrefix(r.Namespace, "slow") }}
			among(t, Options{}, s, func(e *Engine, track track) {
				start := soon()
				for i := range test.namespaces {
					track("Widget", fmt.Sprint("slow", i), 500, start)
				}
				track("ClusterWidget", "", 500, start)
				for i := range 1500 {
					track("Widget", fmt.Sprint("ci", i%7), 1, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
				}
				pass(time.Until(start) + 30*time.Second)
				if n, most := s.worst(); n < 29 || most > test.first {
					t.Errorf("%d others were deleted in half a minute, up to %s late: want 29, and at most %s", n, most, test.first)
				}
				pass(time.Minute)
				s.worst() // What was sent before they were known to be slow is answered.
				s.peak()
				pass(20 * time.Minute)
				if n, most := s.worst(); n < 1200 || most > 20*time.Millisecond {
					t.Errorf("%d others were deleted in 20 minutes, up to %s late: want 1200, and at most 20ms", n, most)
				}
				if underway := s.peak(); underway > DefaultMaxConcurrency/4 {
					t.Errorf("%d of the slow were under way at once, want at most %d", underway, DefaultMaxConcurrency/4)
				}
				if slices.ContainsFunc(s.breakers, func(event string) bool { return pausesAll.MatchString(event) }) {
					t.Errorf("all of a kind waits for some namespaces: %q", s.breakers)
				}
				// They are answered again: all of it is deleted.
				s.answer(slowly(5*time.Millisecond, http.StatusOK))
				pass(15 * time.Minute)
				if n := e.Tracked(); n != 0 {
					t.Errorf("%d are left", n)
				}
			})
		})
	}
}

// All DELETEs are answered slowly, or each third is refused, while the API server answers other
// requests at once, such as those for pauses. More are sent at a time, and what was refused by
// chance several times waits no longer than the rest.
func TestAllAnswersAreBad(t *testing.T) {
	for name, answer := range map[string]answers{"slow": slowly(2*time.Second, http.StatusOK), "429": eachThird(Response{
		Code: http.StatusTooManyRequests, RetryAfter: time.Second, Origin: deletion.FromServer,
	})} {
		o := answering()
		s := &tenants{slow: func(Request) bool { return true }, answers: func(ctx context.Context, r Request) Response {
			_ = o.Ping(ctx)
			return answer(ctx, r)
		}}
		among(t, o, s, func(e *Engine, track track) {
			track("Widget", "ci", 1000, time.Now())
			if pass(30 * time.Second); e.Tracked() > 0 {
				t.Errorf("%s: %d of 1000 are left after 30 s, with %d under way at most", name, e.Tracked(), s.peak())
			}
		})
	}
}

func eachThird(refusal Response) answers {
	var requests atomic.Int64
	return func(context.Context, Request) Response {
		if requests.Add(1)%3 == 0 {
			return refusal
		}
		return Response{Code: http.StatusOK}
	}
}

// A namespace's live judgements hang, so many of them that they would take all slots for long.
// Others of the same kind are judged live as well, and on time, however few slots there are.
func TestSlowJudgementsOfANamespace(t *testing.T) {
	for _, most := range []int{1, 4, DefaultMaxConcurrency} {
		t.Run(strconv.Itoa(most), func(t *testing.T) { slowJudgements(t, most) })
	}
}

func slowJudgements(t *testing.T, most int) {
	s := &tenants{slow: func(Request) bool { return false }, change: func(o *Entry) { o.Live = true }}
	s.judge = func(ctx context.Context, o Entry) (Judgement, error) {
		if o.Namespace != "slow" {
			time.Sleep(5 * time.Millisecond)
			return Judgement{Verdict: Track, Object: o}, nil
		}
		s.count(1)
		defer s.count(-1)
		<-ctx.Done()
		return Judgement{}, ctx.Err()
	}
	among(t, Options{MaxConcurrency: most}, s, func(_ *Engine, track track) {
		start := soon()
		track("Widget", "slow", 2000, start)
		for i := range 120 {
			track("Widget", "ci", 1, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
		}
		pass(time.Until(start) + 10*time.Second)
		first := 1100 * time.Millisecond
		if most == 1 {
			first += slowAfter // The slow one may have the slot twice.
		}
		if n, late := s.worst(); n != 10 || late > first {
			t.Errorf("%d others were deleted in 10 s, up to %s late: want 10, and at most %s", n, late, first)
		}
		s.peak()
		pass(110 * time.Second)
		if n, most := s.worst(); n != 110 || most > 20*time.Millisecond {
			t.Errorf("%d others were deleted in 110 s, up to %s late: want 110, and at most 20ms", n, most)
		}
		if n := s.peak(); n > 64 {
			t.Errorf("%d of the slow were judged at once", n)
		}
	})
}

// A tenant has thousands of objects due at one instant, and few may be deleted in a minute. Others
// wait for the next minute, and not for the end of them.
func TestNamespacesTakeTurns(t *testing.T) {
	s := &tenants{slow: func(r Request) bool { return r.Namespace == "tenant" }, answers: slowly(5*time.Millisecond, http.StatusOK)}
	among(t, Options{MaxDeletionsPerMinute: 60}, s, func(_ *Engine, track track) {
		start := soon()
		track("Widget", "tenant", 3000, start)
		for i := range 10 {
			track("Widget", "ci", 1, start.Add(time.Duration(i)*time.Minute+30*time.Second))
		}
		pass(time.Until(start) + 11*time.Minute)
		if n, most := s.worst(); n != 10 || most > 62*time.Second {
			t.Errorf("%d others were deleted, up to %s late: want 10, and at most a minute", n, most)
		}
	})
}
