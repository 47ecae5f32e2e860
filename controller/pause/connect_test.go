package pause_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/pause"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// TestHeldWhileConnecting: a connection takes long to make, and a pause is accepted meanwhile. The
// request is not sent, neither over HTTP/2, which is what API servers speak, nor over HTTP/1.1,
// which some proxies before them do.
func TestHeldWhileConnecting(t *testing.T) {
	for name, protocol := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) { heldWhileConnecting(t, protocol) })
	}
}

func heldWhileConnecting(t *testing.T, protocol int) {
	var received atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != protocol {
			t.Errorf("the request came by %s, want HTTP/%d", r.Proto, protocol)
		}
		received.Add(1)
	}))
	server.EnableHTTP2 = protocol == 2
	server.StartTLS()
	defer server.Close()
	var held atomic.Bool
	read := make(chan bool, 100)
	gate := pause.New(pause.Options{Clock: clock.RealClock{}, Log: logr.Discard()})
	gate.Use(func(context.Context) ([]judging.Pause, error) {
		if held.Load() {
			defer func() { read <- true }()
			return []judging.Pause{{Name: "stop"}}, nil
		}
		return nil, nil
	}, nil)
	defer run(t, gate.Run)()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		held.Store(true)
		for range 2 { // The second read begins when the first has been taken in.
			gate.Want()
			<-read
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	config.Wrap(gate.Wrap)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, _ = pause.With(ctx, policy.TriggerTTL, "ci")
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, server.URL+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.Do(req); !errors.Is(err, pause.ErrHeld) || received.Load() > 0 {
		t.Errorf("%v, %v, %d requests", resp, err, received.Load())
	}
	server.Close() // Waits for requests that are under way.
	if received.Load() > 0 {
		t.Errorf("%d requests", received.Load())
	}
	if !held.Load() {
		t.Error("the request was held before it was connected: this test shows nothing")
	}
}
