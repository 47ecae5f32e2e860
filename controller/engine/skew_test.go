package engine

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"curfew.dev/curfew/controller/action/deletion"
)

func header(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// The estimate always holds the truth, and answers at different phases of the second make it
// narrow.
func TestSkewHoldsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		true_ := time.Duration(rapid.IntRange(-20_000_000, 20_000_000).Draw(t, "skew µs")) * time.Microsecond
		local := epoch.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "start µs")) * time.Microsecond)
		s := NewSkew(clocktesting.NewFakeClock(local))
		for range rapid.IntRange(1, 40).Draw(t, "answers") {
			there := time.Duration(rapid.IntRange(0, 300_000).Draw(t, "there µs")) * time.Microsecond
			back := time.Duration(rapid.IntRange(0, 300_000).Draw(t, "back µs")) * time.Microsecond
			s.observe(0, local, local.Add(there+back), header(local.Add(there).Add(-true_)))
			local = local.Add(there + back + time.Duration(rapid.IntRange(0, 5_000_000).Draw(t, "pause µs"))*time.Microsecond)
			est := s.estimate(local.UnixNano())
			if !est.known || est.lo > true_ || est.hi < true_ {
				t.Fatalf("the skew is %s, the estimate (%s, %s]", true_, est.lo, est.hi)
			}
			if p := est.proven(); p > 0 && p > true_ || p < 0 && p < true_ {
				t.Fatalf("the skew is %s, %s is said to be proven", true_, p)
			}
		}
	})
}

// Pings at the right moments halve the interval each time.
func TestPingsNarrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off := time.Duration(rapid.IntRange(-4_000_000, 4_000_000).Draw(t, "skew µs")) * time.Microsecond
		local := epoch.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "start µs")) * time.Microsecond)
		s := NewSkew(clocktesting.NewFakeClock(local))
		for range narrowMost {
			s.observe(0, local, local, header(local.Add(-off)))
			wait := s.estimate(local.UnixNano()).pingIn(local.UnixNano(), pingHeld)
			if wait < pingHeld || wait > pingHeld+time.Second {
				t.Fatalf("next ping in %s", wait)
			}
			local = local.Add(wait)
		}
		if est := s.estimate(local.UnixNano()); est.hi-est.lo > precise || est.lo > off || est.hi < off {
			t.Fatalf("after %d pings (%s, %s] for %s", narrowMost, est.lo, est.hi, off)
		}
	})
}

func TestSkewStartsAnew(t *testing.T) {
	s := NewSkew(clocktesting.NewFakeClock(epoch))
	at := epoch
	see := func(off time.Duration) {
		at = at.Add(700 * time.Millisecond)
		s.observe(s.epoch, at, at, header(at.Add(-off)))
	}
	for range 20 {
		see(0)
	}
	see(4 * time.Second) // another API server, or its clock was set
	if p := s.estimate(at.UnixNano()).proven(); p < 3*time.Second || p > 4*time.Second {
		t.Errorf("proven %s after an answer that contradicts, want 3s to 4s", p)
	}
	old := s.epoch
	s.Invalidate()
	s.observe(old, at, at, header(at))
	if s.estimate(at.UnixNano()).known {
		t.Error("an answer that was sent for before the jump counts")
	}
	see(0)
	if !s.estimate(at.UnixNano()).known {
		t.Error("an answer after the jump does not count")
	}
	s.Invalidate()
	s.observe(s.epoch, at, at, "yesterday")
	if s.estimate(at.UnixNano()).known {
		t.Error("a header that cannot be read counts")
	}
}

// A clock that jumps holds deletions until the API server's time was seen again; a skew beyond the
// bound holds them.
func TestGuard(t *testing.T) {
	w := newWorld(t.Fatalf)
	var events []BreakerEvent
	w.engine.opts.OnBreaker = func(ev BreakerEvent) { events = append(events, ev) }
	check := func(what string, ok bool, ahead time.Duration) {
		t.Helper()
		r := w.engine.read()
		w.engine.mu.Lock()
		now, got := w.engine.checkClock(r)
		w.engine.unlock()
		if got != ok {
			t.Errorf("%s: may delete: %v, want %v (%s)", what, got, ok, w.engine.guard.message)
		}
		// Never later than the server's own time, grain aside.
		if d := time.Duration(now - w.server.UnixNano()); got && d > ahead {
			t.Errorf("%s: decides by an instant %s after the API server's", what, d)
		}
	}
	check("nothing known", false, 0)
	w.date()
	check("first answer", true, 0)
	w.jump(3 * time.Second)
	check("jump forward", false, 0)
	w.date()
	check("seen again, 3s ahead", true, time.Second)
	w.jump(10 * time.Second)
	w.date()
	check("10s ahead: seen before it was noticed", false, 0)
	w.date()
	check("10s ahead", false, 0)
	if ev := events[len(events)-1]; !ev.Open || ev.Reason != ReasonClockSkew || ev.Class != "clock" {
		t.Errorf("event %+v", ev)
	}
	w.jump(0)
	check("set right", false, 0)
	w.date()
	check("set right and seen", true, 0)
	w.jump(-20 * time.Second)
	check("jump backward", false, 0)
	w.date()
	check("20s behind", false, 0)
	w.jump(-2 * time.Second)
	w.date()
	check("2s behind, noticed", false, 0)
	w.date()
	check("2s behind", true, 0)
	if ev := events[len(events)-1]; ev.Open || ev.Reason == "" {
		t.Errorf("event %+v", ev)
	}
	w.advance(time.Hour)
	check("an hour passes", true, 0)
}

// A scrape of the metrics may be what notices first that the clock jumped, or that the pause is
// over: both are told all the same.
func TestScrapeNoticesAJump(t *testing.T) {
	w, _, events := ready(t, nil)
	w.pump()
	scrape := func() { metricValue(t, w.engine, "curfew_overdue_objects") }
	w.jump(-3 * time.Hour)
	scrape()
	if len(*events) != 1 || !(*events)[0].Open || (*events)[0].Reason != ReasonClockJump {
		t.Fatalf("after the jump: %+v", *events)
	}
	w.jump(0)
	scrape()
	w.date()
	scrape()
	if len(*events) != 2 || (*events)[1].Open {
		t.Fatalf("after the API server's time was seen: %+v", *events)
	}
}

// S3: what waits for another attempt by a clock that was a day ahead does not wait for a day,
// whoever notices first that it was set right.
func TestRetryOutlivesAWrongClock(t *testing.T) {
	for name, scraped := range map[string]bool{"noticed by the engine": false, "noticed by a scrape": true} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := ready(t, nil)
			w.pump()
			w.dueSoon(1, "j", nil)
			failed := false
			w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
				if failed {
					return w.Delete(ctx, r)
				}
				failed = true
				w.jump(24 * time.Hour)
				return Response{Code: http.StatusInternalServerError}
			})
			w.advance(time.Second)
			w.pump()
			w.jump(0)
			if scraped {
				metricValue(t, w.engine, "curfew_overdue_objects")
			}
			w.pump()
			w.advance(backoffMost + time.Second)
			w.pump()
			if len(w.things) != 0 {
				t.Error("it waits for the clock that was wrong")
			}
		})
	}
}

// Without a Skew a jump is waited out.
func TestGuardAlone(t *testing.T) {
	g := guard{}
	at := func(wall, mono time.Duration) bool {
		_, ok := g.now(reading{wall: epoch.Add(wall).UnixNano(), mono: mono})
		return ok
	}
	for i, c := range []struct {
		wall, mono time.Duration
		want       bool
	}{
		{0, 0, true}, {time.Second, time.Second, true}, {time.Hour, 2 * time.Second, false}, {time.Hour + 500*time.Millisecond, 2500 * time.Millisecond, false},
		{time.Hour + time.Second, 3 * time.Second, true}, {0, 4 * time.Second, false}, {time.Second, 5 * time.Second, true},
	} {
		if got := at(c.wall, c.mono); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}

// An aggregated API whose clock is off neither pauses deletions nor hides that this host's clock is
// off.
func TestSkewLearnsFromTheAPIServerAlone(t *testing.T) {
	for url, learns := range map[string]bool{
		"https://host/version":                                              true,
		"https://host/api/v1":                                               true,
		"https://host/api/v1/namespaces/ci/pods/p":                          true,
		"https://host/apis/batch/v1/namespaces/ci/jobs/j":                   true,
		"https://host/apis/batch/v1/namespaces/proxy/jobs/j":                true,
		"https://host/apis/coordination.k8s.io/v1/namespaces/x/leases/y":    true,
		"https://host/k8s/clusters/c-1/api/v1/namespaces/ci":                true,
		"https://host/api/clusters/c-1/version":                             true,
		"https://host/apis/metrics.k8s.io/v1beta1/namespaces/ci/pods/p":     false,
		"https://host/apis/metrics.k8s.io/v1beta1/namespaces/api/v1/p":      false,
		"https://host/apis/example.com/v1/namespaces/apis/batch/v1":         false,
		"https://host/apis/example.com/v1/things/version":                   false,
		"https://host/apis/batch/v2/namespaces/ci/jobs/j":                   false,
		"https://host/apis/batch":                                           false,
		"https://host/apis":                                                 false,
		"https://host/api/v1/namespaces/ci/services/s:80/proxy/api/v1/pods": false,
		"https://host/": false,
	} {
		skew := NewSkew(clocktesting.NewFakeClock(epoch))
		answer := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Date": {epoch.Add(-time.Minute).Format(http.TimeFormat)}}}
		transport := skew.Wrap(roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil }))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []int{http.StatusBadGateway, http.StatusNotFound} {
			answer.StatusCode = code
			if _, err := transport.RoundTrip(request); err != nil {
				t.Fatal(err)
			}
			if got, want := skew.estimate(epoch.UnixNano()).known, learns && code < 500; got != want {
				t.Errorf("%s, answer %d: learns %v, want %v", url, code, got, want)
			}
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSkewLearnsFromTransport(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			t.Errorf("Ping asks for %s", r.URL.Path)
		}
		rw.Header().Set("Date", epoch.Format(http.TimeFormat))
	}))
	defer srv.Close()
	skew := NewSkew(clocktesting.NewFakeClock(epoch.Add(7 * time.Second)))
	config := &rest.Config{Host: srv.URL}
	config.Wrap(skew.Wrap)
	client, err := deletion.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
	if est := skew.estimate(epoch.Add(7 * time.Second).UnixNano()); !est.known || est.lo != 6*time.Second || est.hi != 7*time.Second || est.proven() != 6*time.Second {
		t.Errorf("%+v, want between 6s and 7s", est)
	}
}
