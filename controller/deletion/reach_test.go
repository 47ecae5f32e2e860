package deletion

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestReach(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	reach := NewReach(clock)
	send := func(ctx context.Context, method string, code int) {
		t.Helper()
		transport := reach.Wrap(answers(func(*http.Request) (*http.Response, error) {
			if code == 0 {
				return nil, errors.New("connection refused")
			}
			return &http.Response{StatusCode: code}, nil
		}))
		_, _ = transport.RoundTrip(httptest.NewRequestWithContext(ctx, method, "/api", nil))
	}
	expect := func(when string, behind bool) {
		t.Helper()
		if reach.Behind() != behind {
			t.Errorf("%s: behind is %t, want %t", when, !behind, behind)
		}
	}
	expect("at the start", false)
	send(t.Context(), http.MethodGet, http.StatusInternalServerError)
	expect("after an error that the API server wrote", false)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	send(cancelled, http.MethodGet, 0)
	expect("after a cancelled request", false)
	send(t.Context(), http.MethodDelete, 0)
	expect("after a request without an answer", true)
	clock.SetTime(clock.Now().Add(BehindFor - time.Second))
	send(t.Context(), http.MethodGet, http.StatusServiceUnavailable)
	clock.SetTime(clock.Now().Add(BehindFor - time.Second))
	expect("while it is starting", true)
	send(t.Context(), http.MethodGet, http.StatusOK)
	clock.SetTime(clock.Now().Add(time.Second))
	expect("when all watches have begun again", false)
}
