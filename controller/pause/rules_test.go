package pause_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/pause"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// TestRules (S12): a deletion and a stop need rules that were confirmed less than 15 s before they
// are sent. Reads do not.
func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		ago    time.Duration // when the rules were confirmed, 0: no rules permit it
		method string
		held   bool
	}{
		"just confirmed":            {time.Millisecond, http.MethodDelete, false},
		"13 s ago":                  {13 * time.Second, http.MethodDelete, false},
		"15 s ago":                  {15 * time.Second, http.MethodDelete, true},
		"a stop, 15 s ago":          {15 * time.Second, http.MethodPatch, true},
		"a read, 15 s ago":          {15 * time.Second, http.MethodGet, false},
		"no rules: a Pod's release": {0, http.MethodPatch, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				a.jobs["one"] = true
				gate, stop := a.gate(t)
				defer stop()
				pass(time.Minute)
				ctx, mark := pause.With(t.Context(), policy.TriggerTTL, "ci")
				if test.ago > 0 {
					mark.Confirmed(time.Now().Add(-test.ago))
				}
				err := send(ctx, a.config(gate), test.method, "one")
				if held := errors.Is(err, pause.ErrHeld); held != test.held || err != nil && !held || mark.Held() != test.held {
					t.Errorf("error %v, mark held %t; want held: %t", err, mark.Held(), test.held)
				}
				if sent := len(a.writes) > 0; sent != (!test.held && test.method != http.MethodGet) {
					t.Errorf("sent: %t", sent)
				}
			})
		})
	}
}

// TestRulesWhileConnecting: a connection takes so long to make that the rules are outdated.
func TestRulesWhileConnecting(t *testing.T) {
	var received atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	defer server.Close()
	gate := pause.New(pause.Options{Clock: clock.RealClock{}, Log: logr.Discard()})
	gate.Use(func(context.Context) ([]judging.Pause, error) { return nil, nil }, nil)
	defer run(t, gate.Run)()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, mark := pause.With(ctx, policy.TriggerTTL, "ci")
	mark.Confirmed(time.Now())
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		mark.Confirmed(time.Now().Add(-15 * time.Second)) // As if it had taken 15 s.
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	config.Wrap(gate.Wrap)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, server.URL+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	server.Close() // Waits for requests that are under way.
	if !errors.Is(err, pause.ErrHeld) || received.Load() > 0 || !mark.Held() {
		t.Errorf("%v, %v, %d requests", resp, err, received.Load())
	}
}
