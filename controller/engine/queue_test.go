package engine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/servertime"
)

var widgets = KindOptions{Type: action.Type{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true}, Trigger: "ttl",
	Judge: func(context.Context, Entry) (Judgement, error) { return Judgement{Verdict: Gone}, nil },
}

// uneven is an API server that treats one kind differently.
type uneven struct {
	mu      sync.Mutex
	answers func(ctx context.Context, r Request) Response // of Widgets
	widgets int                                           // DELETEs of Widgets under way
	most    int
	late    []time.Duration // lateness of the Jobs, as their DELETEs were answered
}

func (u *uneven) Delete(ctx context.Context, r Request) Response {
	if r.Kind == "Job" {
		time.Sleep(5 * time.Millisecond)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.late = append(u.late, time.Since(r.Expiry))
		return Response{Code: http.StatusOK}
	}
	u.count(1)
	defer u.count(-1)
	return u.answers(ctx, r)
}

func (u *uneven) count(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.widgets += n
	u.most = max(u.most, u.widgets)
}

// lateness of all Jobs so far, the greatest, which it forgets.
func (u *uneven) lateness() (jobs int, most time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.late) > 0 {
		jobs, most = len(u.late), slices.Max(u.late)
	}
	u.late = nil
	return jobs, most
}

func (u *uneven) peak() (widgets int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	widgets, u.most = u.most, u.widgets
	return widgets
}

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

// pace is how many requests may be under way, when the engine does not look for the least latency.
func (e *Engine) pace() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conc.Steady()
}

// besides runs an engine with Jobs, and with Widgets and other kinds that are answered so, in
// synthetic time.
func besides(t *testing.T, answers func(context.Context, Request) Response, f func(t *testing.T, e *Engine, u *uneven, track func(kind string, n int, at time.Time), breakers func() []string)) {
	t.Helper()
	beside(t, Options{}, answers, f)
}

func beside(t *testing.T, o Options, answers func(context.Context, Request) Response, f func(t *testing.T, e *Engine, u *uneven, track func(kind string, n int, at time.Time), breakers func() []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &uneven{answers: answers}
		var mu sync.Mutex
		var events []string
		o.Triggers = deletes(u)
		o.OnBreaker = func(ev BreakerEvent) {
			mu.Lock()
			defer mu.Unlock()
			if ev.Class != classClock {
				events = append(events, fmt.Sprintf("%s %s %s %v", ev.Class, ev.Kind, ev.Reason, ev.Open))
			}
		}
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]Kind{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		i := 0
		f(t, e, u, func(kind string, n int, at time.Time) {
			if kinds[kind] == 0 {
				options := widgets
				options.Kind, options.Resource.Resource = kind, strings.ToLower(kind)+"s"
				if kinds[kind], err = e.RegisterKind(options); err != nil {
					t.Fatal(err)
				}
			}
			for range n {
				i++
				name, uid := fmt.Sprintf("j%05d", i), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
				e.Upsert(Entry{Kind: kinds[kind], Namespace: "ci", Name: name, UID: uid, ResourceVersion: "7", Expiry: at, Source: "object"})
			}
		}, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(events)
		})
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
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
			besides(t, c.answers, func(t *testing.T, e *Engine, u *uneven, track func(string, int, time.Time), breakers func() []string) {
				start := time.Now().Truncate(time.Second).Add(time.Minute)
				track("Job", 2000, start.Add(-10*time.Second)) // The engine finds out how many requests may be under way.
				track("Widget", 1000, start)
				for i := range 300 {
					track("Job", 3, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
				}
				pass(time.Until(start))
				u.lateness()
				pace := e.pace()
				pass(2 * time.Second)
				if n, late := u.lateness(); n != 6 || late > slowAfter {
					t.Errorf("%d Jobs went in the first two seconds, up to %s late: want 6 and at most %s", n, late, slowAfter)
				}
				u.peak()
				pass(5 * time.Minute)
				if n, late := u.lateness(); n != 894 || late > 20*time.Millisecond {
					t.Errorf("%d Jobs went in five minutes, up to %s late: want 894 and at most 20ms", n, late)
				}
				if n := e.pace(); n < pace {
					t.Errorf("%d may be under way because of Widgets, and %d before: want no fewer", n, pace)
				}
				u.peak()
				pass(time.Minute)
				if n := u.peak(); n > maxSlow {
					t.Errorf("%d DELETEs of Widgets under way at once, want at most %d", n, maxSlow)
				}
				if got := breakers(); !slices.Equal(got, []string{c.event}) {
					t.Errorf("breakers: %q, want %q alone", got, c.event)
				}
				// It answers again: all of it goes.
				u.mu.Lock()
				u.answers = slowly(5*time.Millisecond, http.StatusOK)
				u.mu.Unlock()
				pass(3 * time.Minute)
				if n := e.Tracked(); n != 0 {
					t.Errorf("%d are left three minutes after it answers again", n)
				}
				if slices.ContainsFunc(e.queues, func(q *queue) bool { return q.rest.slow || len(q.own) > 0 || q.rest.judging.slow }) {
					t.Error("it counts as slow for ever")
				}
			})
		})
	}
}

// Every third DELETE of a kind hangs for a while: the answers to the others do not make it quick
// again too soon.
func TestKindThatHangsNowAndThen(t *testing.T) {
	var n atomic.Int64
	often := func(ctx context.Context, r Request) Response {
		if n.Add(1)%3 == 0 {
			return slowly(20*time.Second, http.StatusOK)(ctx, r)
		}
		return slowly(5*time.Millisecond, http.StatusOK)(ctx, r)
	}
	beside(t, Options{MaxConcurrency: 4}, often, func(t *testing.T, _ *Engine, u *uneven, track func(string, int, time.Time), _ func() []string) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("Widget", 1000, start)
		for i := range 300 {
			track("Job", 3, start.Add(2*time.Second+time.Duration(i)*100*time.Millisecond))
		}
		pass(time.Until(start) + 40*time.Second)
		if n, late := u.lateness(); n != 900 || late > 20*time.Millisecond {
			t.Errorf("%d Jobs went, up to %s late: want 900 and at most 20ms", n, late)
		}
	})
}

// A kind whose DELETEs fail at once is paused. Its probes fail as well, and slow down no other
// kind.
func TestFailingKindSlowsNoOther(t *testing.T) {
	besides(t, slowly(5*time.Millisecond, http.StatusInternalServerError), func(t *testing.T, e *Engine, u *uneven, track func(string, int, time.Time), breakers func() []string) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("Job", 2000, start.Add(-10*time.Second))
		track("Widget", 1000, start)
		pass(time.Until(start) + 2*time.Second)
		pace := e.pace()
		pass(10 * time.Minute)
		if n := e.pace(); n < pace {
			t.Errorf("%d may be under way, and %d when the kind was paused: want no fewer", n, pace)
		}
		if got := breakers(); !slices.Equal(got, []string{"kind Widget ServerErrors true"}) {
			t.Errorf("breakers: %q", got)
		}
	})
}

// One kind always gets 429. If the answer is from the API server itself, everything pauses for a
// second a few times, since it may be overloaded. Answers to other kinds show that it is not: from
// then on only that kind waits, and is tried again without end. If the answer is from the server of
// the kind, other kinds never wait.
func TestThrottledKind(t *testing.T) {
	for name, origin := range map[string]action.Origin{"by the API server": action.FromServer, "by an aggregated API": action.FromResource} {
		t.Run(name, func(t *testing.T) { throttledKind(t, origin) })
	}
}

func throttledKind(t *testing.T, origin action.Origin) {
	many := func(context.Context, Request) Response {
		time.Sleep(5 * time.Millisecond)
		return Response{Code: http.StatusTooManyRequests, RetryAfter: 20 * time.Second, Origin: origin}
	}
	besides(t, many, func(t *testing.T, e *Engine, u *uneven, track func(string, int, time.Time), breakers func() []string) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("Job", 2000, start.Add(-10*time.Second))
		track("Widget", 1000, start)
		for i := range 600 {
			track("Job", 3, start.Add(time.Duration(i)*time.Second+500*time.Millisecond))
		}
		pass(time.Until(start) + 100*time.Millisecond)
		u.lateness()
		pass(15 * time.Second)
		if n, late := u.lateness(); origin == action.FromServer && (n < 40 || late > 1500*time.Millisecond) {
			t.Errorf("%d Jobs went in 15 seconds, up to %s late: want 40 at least, and at most 1.5s", n, late)
		} else if origin == action.FromResource && (n != 45 || late > 20*time.Millisecond) {
			t.Errorf("%d Jobs went in 15 seconds, up to %s late: want 45 and at most 20ms", n, late)
		}
		pass(75 * time.Second)
		u.lateness()
		pace := e.pace()
		pass(5 * time.Minute)
		if n, late := u.lateness(); n != 900 || late > 20*time.Millisecond {
			t.Errorf("%d Jobs went in five minutes, up to %s late: want 900 and at most 20ms", n, late)
		}
		if n := e.pace(); n < pace {
			t.Errorf("%d may be under way because of Widgets, and %d before: want no fewer", n, pace)
		}
		u.peak()
		pass(time.Minute)
		if n := u.peak(); n != 1 {
			t.Errorf("%d DELETEs of Widgets under way at once, want one, to see whether it is over", n)
		}
		u.mu.Lock()
		u.answers = slowly(5*time.Millisecond, http.StatusOK)
		u.mu.Unlock()
		pass(5 * time.Minute)
		if n := e.Tracked(); n != 0 || u.peak() < 2 {
			t.Errorf("%d are left five minutes after it answers again, or one went at a time", n)
		}
	})
}

// However many kinds hang, few of their requests are under way.
func TestManyHangingKinds(t *testing.T) {
	besides(t, hang, func(t *testing.T, _ *Engine, u *uneven, track func(string, int, time.Time), _ func() []string) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		for i := range 10 {
			track(fmt.Sprintf("Widget%d", i), 1000, start)
		}
		for i := range 600 {
			track("Job", 1, start.Add(time.Duration(i)*time.Second))
		}
		pass(time.Until(start) + time.Minute)
		u.peak()
		u.lateness()
		pass(4 * time.Minute)
		if n := u.peak(); n > maxSlowAll || n < maxSlow {
			t.Errorf("%d DELETEs that hang under way at once, want from %d to %d", n, maxSlow, maxSlowAll)
		}
		if n, late := u.lateness(); n != 240 || late > 20*time.Millisecond {
			t.Errorf("%d Jobs went, up to %s late: want 240 and at most 20ms", n, late)
		}
	})
}

// Nothing else is due, but the API server answers when it is asked for its time: it is the kind
// that is paused.
func TestHangingKindAlone(t *testing.T) {
	skew := servertime.NewSkew(clock.RealClock{})
	o := Options{Skew: skew, Ping: func(context.Context) error {
		now := time.Now()
		skew.Learn(now, now, now.UTC().Format(http.TimeFormat))
		return nil
	}}
	beside(t, o, hang, func(t *testing.T, _ *Engine, _ *uneven, track func(string, int, time.Time), breakers func() []string) {
		track("Widget", 100, time.Now())
		pass(2 * time.Minute)
		if got := breakers(); !slices.Equal(got, []string{"kind Widget Unreachable true"}) {
			t.Errorf("breakers: %q", got)
		}
	})
}

// A kind that is slow but goes: no more than maxSlow of it are under way once that is known, and
// it does not become worse for that.
func TestSlowKind(t *testing.T) {
	besides(t, slowly(3*time.Second, http.StatusOK), func(t *testing.T, e *Engine, u *uneven, track func(string, int, time.Time), breakers func() []string) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("Widget", 320, start)
		for i := range 100 {
			track("Job", 1, start.Add(2*time.Second+time.Duration(i)*100*time.Millisecond))
		}
		pass(time.Until(start) + 6*time.Second)
		u.peak()
		pass(10 * time.Second)
		if n, late := u.lateness(); n != 100 || late > 20*time.Millisecond {
			t.Errorf("%d Jobs went, up to %s late: want 100 and at most 20ms", n, late)
		}
		if n := u.peak(); n != maxSlow {
			t.Errorf("%d DELETEs of Widgets under way at once, want %d", n, maxSlow)
		}
		pass(time.Minute)
		if n := e.Tracked(); n != 0 {
			t.Errorf("%d are left although 320 of 3s each, %d at a time, take a minute", n, maxSlow)
		}
		if got := breakers(); len(got) != 0 {
			t.Errorf("breakers: %q", got)
		}
	})
}

// Many of one kind have been due for long, each taking a tenth of a second: others need not wait
// until they are gone.
func TestKindsTakeTurns(t *testing.T) {
	besides(t, slowly(100*time.Millisecond, http.StatusOK), func(t *testing.T, e *Engine, u *uneven, track func(string, int, time.Time), _ func() []string) {
		start := time.Now().Truncate(time.Second).Add(time.Minute)
		track("Widget", 20_000, start)
		track("Job", 10, start.Add(5*time.Second))
		pass(time.Until(start) + 6*time.Second)
		if n, late := u.lateness(); n != 10 || late > 250*time.Millisecond {
			t.Errorf("%d Jobs went, up to %s late: want 10 and at most 250ms", n, late)
		}
		if e.Tracked() < 5000 {
			t.Errorf("%d objects are tracked, want 5000 or more: the others of the kind did not wait", e.Tracked())
		}
	})
}

// The same where one deletion may be under way at a time, or fewer than there are kinds with many
// due objects: a new object need not wait until all objects that were due before it are deleted.
func TestKindsTakeTurnsOneAtATime(t *testing.T) {
	for most, kinds := range map[int]int{1: 1, 3: 5} {
		t.Run(fmt.Sprintf("%d at a time", most), func(t *testing.T) {
			o := Options{MaxConcurrency: most}
			beside(t, o, slowly(100*time.Millisecond, http.StatusOK), func(t *testing.T, _ *Engine, u *uneven, track func(string, int, time.Time), _ func() []string) {
				start := time.Now().Truncate(time.Second).Add(time.Minute)
				for i := range kinds {
					track(fmt.Sprintf("Widget%d", i), 1000, start)
				}
				track("Job", 10, start.Add(5*time.Second))
				pass(time.Until(start) + 15*time.Second)
				if n, _ := u.lateness(); n != 10 {
					t.Errorf("%d Jobs went in ten seconds, want 10 beside %d kinds with 1000 due objects", n, kinds)
				}
			})
		})
	}
}

// If the API server itself is unreachable no kind gets an answer, and everything is paused.
func TestNoAnswerForAnyKind(t *testing.T) {
	besides(t, hang, func(t *testing.T, _ *Engine, _ *uneven, track func(string, int, time.Time), breakers func() []string) {
		track("Widget", 100, time.Now())
		pass(2 * time.Minute)
		if got := breakers(); !slices.Equal(got, []string{"apiserver Widget Unreachable true"}) {
			t.Errorf("breakers: %q", got)
		}
	})
}
