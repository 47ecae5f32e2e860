package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// adding keeps the server that is added.
type adding struct {
	ctrl.Manager
	server *manager.Server
}

func (a *adding) Add(runnable manager.Runnable) error {
	a.server = runnable.(*manager.Server)
	return nil
}

// A check that fails is named, and its own path says why. A process that was asked to stop is alive,
// and no longer ready.
func TestHealth(t *testing.T) {
	mgr, d := &adding{}, drain{}
	p := &process{mgr: mgr, options: defaultOptions()}
	p.options.healthAddr = "127.0.0.1:0"
	broken := errors.New("no certificate yet")
	answer := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		mgr.server.Server.Handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	must(t, p.addHealth(t.Context(), nil))
	if code, _ := answer("/readyz"); code != http.StatusOK {
		t.Errorf("a controller: %d", code)
	}
	must(t, mgr.server.Listener.Close())
	must(t, p.addHealth(t.Context(), map[string]healthz.Checker{"stopping": d.check, "certificate": func(*http.Request) error { return broken }}))
	defer mgr.server.Listener.Close()
	for _, step := range []struct {
		name  string
		path  string
		code  int
		text  string
		after func()
	}{
		{name: "unready", path: "/readyz", code: 500, text: "[-]certificate failed: reason withheld\n[+]stopping ok\n"},
		{name: "unready, but alive", path: "/healthz", code: 200, text: "ok"},
		{name: "why", path: "/readyz/certificate", code: 500, text: "no certificate yet", after: func() { broken = nil }},
		{name: "ready", path: "/readyz", code: 200, text: "ok", after: func() { d.begun.Store(true) }},
		{name: "stopping", path: "/readyz", code: 500, text: "[-]stopping failed"},
		{name: "stopping, but alive", path: "/healthz", code: 200, text: "ok"},
		{name: "nothing there", path: "/metrics", code: 404},
	} {
		if code, text := answer(step.path); code != step.code || !strings.Contains(text, step.text) {
			t.Errorf("%s: %d %s", step.name, code, text)
		}
		if step.after != nil {
			step.after()
		}
	}
	p.options.healthAddr = mgr.server.Listener.Addr().String()
	if err := p.addHealth(t.Context(), nil); err == nil {
		t.Error("a port is bound twice")
	}
}

// piped is a listener whose connections are pipes, so that their deadlines follow the clock of a
// test.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	if connection, ok := <-p; ok {
		return connection, nil
	}
	return nil, http.ErrServerClosed
}

func (p piped) Close() error { close(p); return nil }

func (piped) Addr() net.Addr { return &net.TCPAddr{} }

func (p piped) dial() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}

// get sends a request on a connection and returns its status.
func get(connection net.Conn, header string) (int, error) {
	go func() { _, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a\r\n"+header+"\r\n") }()
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// S9: headers are bounded, and a client that sends them too slowly, or none, loses its connection.
func TestServersAreBounded(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	for name, c := range map[string]struct {
		server       *http.Server
		header       int
		first, later time.Duration
	}{
		"health": {healthServer(ok), 4 << 10, time.Second, time.Second},
		"api":    {apiServer(ok), 64 << 10, 5 * time.Second, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := make(piped)
				go func() { _ = c.server.Serve(listener) }()
				defer c.server.Close()
				for size, want := range map[int]int{c.header / 2: http.StatusOK, 4 * c.header: http.StatusRequestHeaderFieldsTooLarge} {
					if status, err := get(listener.dial(), "A: "+strings.Repeat("a", size)+"\r\n"); status != want {
						t.Errorf("%d bytes: %d, %v, want %d", size, status, err, want)
					}
				}
				silent, slow, idle := listener.dial(), listener.dial(), listener.dial()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for _, err := io.WriteString(slow, "GET / HTTP/1.1\r\n"); err == nil; _, err = io.WriteString(slow, "A: a\r\n") {
						time.Sleep(c.first / 4)
					}
				}()
				began := time.Now()
				if status, err := get(idle, ""); status != http.StatusOK {
					t.Fatalf("%d, %v", status, err)
				}
				for _, row := range []struct {
					name       string
					connection net.Conn
					after      time.Duration
				}{{"silent", silent, c.first}, {"slow", slow, c.first}, {"idle", idle, c.later}} {
					if _, err := io.Copy(io.Discard, row.connection); err != nil || time.Since(began) != row.after {
						t.Errorf("%s: closed after %s, %v; want %s", row.name, time.Since(began), err, row.after)
					}
				}
				<-ended
			})
		})
	}
}
