package deletion_test

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

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// connecting sends a DELETE through a gate, over a connection that takes long to make, and returns
// how many requests the server received.
func connecting(ctx context.Context, t *testing.T, gate *deletion.Gate, protocol int, meanwhile func()) (int32, error) {
	t.Helper()
	var received atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != protocol {
			t.Errorf("the request came by %s, want HTTP/%d", r.Proto, protocol)
		}
		received.Add(1)
	}))
	server.EnableHTTP2 = protocol == 2
	server.StartTLS()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		meanwhile()
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	config.Wrap(gate.Wrap)
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, server.URL+"/x", nil)
	must(t, err)
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	server.Close() // Waits for requests that are under way.
	return received.Load(), err
}

// TestHeldWhileConnecting: a connection takes long to make, and a pause is accepted meanwhile. The
// request is not sent, neither over HTTP/2, which is what API servers speak, nor over HTTP/1.1,
// which some proxies before them do.
func TestHeldWhileConnecting(t *testing.T) {
	for name, protocol := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // Two reads take two seconds.
			var held atomic.Bool
			read := make(chan bool, 100)
			gate := deletion.NewGate(deletion.GateOptions{Clock: clock.RealClock{}, Log: logr.Discard()})
			gate.Use(func(context.Context) ([]judging.Pause, error) {
				if held.Load() {
					defer func() { read <- true }()
					return []judging.Pause{{Name: "stop"}}, nil
				}
				return nil, nil
			}, nil)
			defer run(t, gate.Run)()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ctx, _ = deletion.WithMark(ctx, policy.TriggerTTL, "ci")
			received, err := connecting(ctx, t, gate, protocol, func() {
				held.Store(true)
				for range 2 { // The second read begins when the first has been taken in.
					gate.Want()
					<-read
				}
			})
			if !errors.Is(err, deletion.ErrHeld) || received > 0 || !held.Load() {
				t.Errorf("%v, %d requests, paused while connecting: %t", err, received, held.Load())
			}
		})
	}
}

// TestRulesWhileConnecting: a connection takes so long to make that the rules are outdated.
func TestRulesWhileConnecting(t *testing.T) {
	gate := deletion.NewGate(deletion.GateOptions{Clock: clock.RealClock{}, Log: logr.Discard()})
	gate.Use(func(context.Context) ([]judging.Pause, error) { return nil, nil }, nil)
	defer run(t, gate.Run)()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, mark := deletion.WithMark(ctx, policy.TriggerTTL, "ci")
	mark.Confirmed(time.Now())
	received, err := connecting(ctx, t, gate, 1, func() {
		mark.Confirmed(time.Now().Add(-15 * time.Second)) // As if it had taken 15 s.
	})
	if !errors.Is(err, deletion.ErrHeld) || received > 0 || !mark.Held() {
		t.Errorf("%v, %d requests", err, received)
	}
}

// TestLeadLost: a replica that does not lead sends nothing, and neither does one that loses the lead
// while it connects.
func TestLeadLost(t *testing.T) {
	var leads atomic.Bool
	gate := deletion.NewGate(deletion.GateOptions{Clock: clock.RealClock{}, Log: logr.Discard(), Leads: leads.Load})
	gate.Use(func(context.Context) ([]judging.Pause, error) { return nil, nil }, nil)
	defer run(t, gate.Run)()
	for name, test := range map[string]struct {
		before, connecting bool
		received           int32
	}{
		"never led":                     {},
		"lost it before the connection": {before: true},
		"leads":                         {before: true, connecting: true, received: 1},
	} {
		leads.Store(test.before)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		marked, mark := deletion.WithMark(ctx, policy.TriggerDeadline, "ci")
		received, err := connecting(marked, t, gate, 1, func() { leads.Store(test.connecting) })
		if held := test.received == 0; received != test.received || mark.Held() != held || errors.Is(err, deletion.ErrHeld) != held {
			t.Errorf("%s: %d requests, held %t, %v", name, received, mark.Held(), err)
		}
		cancel()
	}
}
