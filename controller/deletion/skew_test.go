package deletion

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

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
			est := s.Estimate(local.UnixNano())
			if !est.Known || est.Lo > true_ || est.Hi < true_ {
				t.Fatalf("the skew is %s, the estimate (%s, %s]", true_, est.Lo, est.Hi)
			}
			if p := est.Proven(); p > 0 && p > true_ || p < 0 && p < true_ {
				t.Fatalf("the skew is %s, %s is said to be proven", true_, p)
			}
		}
	})
}

func TestSkewStartsAnew(t *testing.T) {
	s := NewSkew(clocktesting.NewFakeClock(epoch))
	instant := epoch
	see := func(off time.Duration) {
		instant = instant.Add(700 * time.Millisecond)
		s.observe(s.epoch, instant, instant, header(instant.Add(-off)))
	}
	for range 20 {
		see(0)
	}
	see(4 * time.Second) // another API server, or its clock was set
	if p := s.Estimate(instant.UnixNano()).Proven(); p < 3*time.Second || p > 4*time.Second {
		t.Errorf("proven %s after an answer that contradicts, want 3s to 4s", p)
	}
	old := s.epoch
	s.Invalidate()
	s.observe(old, instant, instant, header(instant))
	if s.Estimate(instant.UnixNano()).Known {
		t.Error("an answer that was sent for before the jump counts")
	}
	see(0)
	if !s.Estimate(instant.UnixNano()).Known {
		t.Error("an answer after the jump does not count")
	}
	s.Invalidate()
	s.observe(s.epoch, instant, instant, "yesterday")
	if s.Estimate(instant.UnixNano()).Known {
		t.Error("a header that cannot be read counts")
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
			if got, want := skew.Estimate(epoch.UnixNano()).Known, learns && code < 500; got != want {
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
	client, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
	if est := skew.Estimate(epoch.Add(7 * time.Second).UnixNano()); !est.Known || est.Lo != 6*time.Second || est.Hi != 7*time.Second || est.Proven() != 6*time.Second {
		t.Errorf("%+v, want between 6s and 7s", est)
	}
}

var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func header(t time.Time) string { return t.UTC().Format(http.TimeFormat) }
