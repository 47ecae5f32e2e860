package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A webhook that is told to stop is not ready any more, serves on for the delay, and asks for new
// connections meanwhile.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d drain
		handler := d.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		closes := func() bool {
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", nil))
			return response.Header().Get("Connection") == "close"
		}
		signal, stop := context.WithCancel(t.Context())
		later := d.follow(signal, time.After, 5*time.Second)
		synctest.Wait()
		if closes() || d.check().Probe(t.Context()) != nil || later.Err() != nil {
			t.Error("it drains before it was told to stop")
		}
		stop()
		synctest.Wait()
		if !closes() || d.check().Probe(t.Context()) == nil || later.Err() != nil {
			t.Error("it does not drain, or has stopped at once")
		}
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if later.Err() != nil {
			t.Error("it stopped before the delay was over")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if later.Err() == nil {
			t.Error("it goes on after the delay")
		}
	})
}

// deadlines records the deadlines of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error  { d.read = at; return nil }
func (d *deadlines) SetWriteDeadline(at time.Time) error { d.write = at; return nil }

// TestRequestLimits: a request has deadlines, and a header of more than 64 KiB reaches no handler.
func TestRequestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			header int
			want   int
		}{
			"a usual header":     {header: 100, want: http.StatusOK},
			"the largest header": {header: maxHeader - len("X"), want: http.StatusOK},
			"one byte more":      {header: maxHeader - len("X") + 1, want: http.StatusRequestHeaderFieldsTooLarge},
		} {
			var d drain
			called, begun := false, time.Now()
			response := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", nil)
			request.Header = http.Header{"X": {strings.Repeat("a", test.header)}}
			d.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true })).ServeHTTP(response, request)
			if response.Code != test.want || called != (test.want == http.StatusOK) {
				t.Errorf("%s: status %d, handler called: %v; want status %d", name, response.Code, called, test.want)
			}
			if closes := response.Header().Get("Connection") == "close"; closes == called {
				t.Errorf("%s: the connection closes: %v", name, closes)
			}
			if response.read.Sub(begun) != readTimeout || response.write.Sub(begun) != writeTimeout {
				t.Errorf("%s: deadlines after %s and %s, want %s and %s", name, response.read.Sub(begun), response.write.Sub(begun), readTimeout, writeTimeout)
			}
		}
	})
}

// TestRequestOutlivesTheServer: a request goes on when the server stops, and ends when its client
// disconnects. Both cancel its context.
func TestRequestOutlivesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, stops := range map[string]bool{"the server stops": true, "the client disconnects": false} {
			var d drain
			begin := context.Background()
			if stops {
				signal, stop := context.WithCancel(begin)
				begin = d.follow(signal, time.After, time.Second)
				time.AfterFunc(time.Second, stop)
			}
			ctx, disconnect := context.WithCancel(begin)
			defer disconnect()
			if !stops {
				time.AfterFunc(time.Second, disconnect)
			}
			var err error
			d.serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute)
				err = r.Context().Err()
			})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/validate", nil))
			if ctx.Err() == nil || stops != (err == nil) {
				t.Errorf("%s: the request's context: %v", name, err)
			}
		}
	})
}

// TestServer: the server has our certificate and offers HTTP/1.1 alone.
func TestServer(t *testing.T) {
	lender := httptest.NewUnstartedServer(nil) // It brings a certificate, and a client that trusts it.
	lender.EnableHTTP2 = true
	lender.StartTLS()
	defer lender.Close()
	port := freePort(t)
	certificate := lender.TLS.Certificates[0]
	server := newServer("127.0.0.1", port, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
	})
	server.Register("/validate", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	ready := onceReady(server.StartedChecker())
	if ready(t.Context()) == nil {
		t.Error("the server is ready before it was started")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- unordered{server.Start}.Start(ctx) }()
	for ready(ctx) != nil {
		select {
		case err := <-done:
			t.Fatalf("the server has ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	response, err := lender.Client().Post(fmt.Sprintf("https://127.0.0.1:%d/validate", port), "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusTeapot || response.ProtoMajor != 1 || response.TLS.Version != tls.VersionTLS13 {
		t.Errorf("status %d by %s and %s, want %d by HTTP/1.1 and TLS 1.3", response.StatusCode, response.Proto,
			tls.VersionName(response.TLS.Version), http.StatusTeapot)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if err := ready(t.Context()); err != nil {
		t.Errorf("the check was repeated after a success: %v", err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestServingFlagsThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*options)
		want string
	}{
		"the defaults":      {func(*options) {}, ""},
		"another issuer":    {func(o *options) { o.certificates = "vault" }, "--certificates=vault: give self-managed or cert-manager"},
		"no folder":         {func(o *options) { o.certificates, o.certificateDir = certManager, "" }, "--certificate-dir=: name the folder where the Secret is mounted"},
		"an old TLS":        {func(o *options) { o.tlsMinVersion = "1.1" }, "--tls-min-version=1.1: give 1.2 or 1.3"},
		"names without CAs": {func(o *options) { o.clientNames = []string{"a"} }, "--client-names=[a]: set --client-ca-file, too: without it no certificate is asked for"},
		"two at once": {func(o *options) { o.caSettle, o.drainDelay = 0, -1 },
			"--ca-settle=0s: give 1s to 24h\n--drain-delay=-1ns: give 0s to 5m"},
	} {
		t.Run(name, func(t *testing.T) {
			options, got := defaultOptions(), ""
			c.set(options)
			if err := options.validate(parts{webhook: true}); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("says %q, want %q", got, c.want)
			}
		})
	}
}
