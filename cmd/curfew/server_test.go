package main

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/webhook"
	"curfew.dev/curfew/webhook/api"
)

// serverManager keeps the server that is added.
type serverManager struct {
	ctrl.Manager
	server *api.Server
}

func (m *serverManager) Add(one manager.Runnable) error {
	m.server, _ = one.(*api.Server)
	return nil
}

// S9: the webhooks have the limits of the HTTP API, which webhook/api tests, though the mux of
// controller-runtime serves them. They speak HTTP/1.1 also to a client that prefers HTTP/2.
func TestWebhookServerIsBounded(t *testing.T) {
	store, err := platform.New(nil)
	must(t, err)
	handlers, err := webhook.New(webhook.Options{Platform: store, Namespaces: struct{ webhook.NamespaceGetter }{}, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
	must(t, err)
	lender := httptest.NewTLSServer(http.NotFoundHandler()) // a certificate, and a client that trusts it
	defer lender.Close()
	mgr := &serverManager{}
	a := &admission{process: &process{mgr: mgr, options: defaultOptions()}, handlers: handlers, certificate: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: lender.TLS.Certificates}}
	a.options.host, a.options.port = "127.0.0.1", 0
	must(t, a.addServer(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.server.Start(ctx) }()
	client := lender.Client()
	transport := client.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = true, []string{"h2", "http/1.1"}
	url := "https://" + mgr.server.Addr().String() + webhook.PathMutate
	for header, want := range map[string]int{"": http.StatusUnsupportedMediaType, strings.Repeat("a", 100<<10): http.StatusRequestHeaderFieldsTooLarge} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{"))
		must(t, err)
		request.Header.Set("A", header)
		response, err := client.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != want || response.ProtoMajor != 1 {
			t.Errorf("%d bytes of header: %d over %s, want %d over HTTP/1.1", len(header), response.StatusCode, response.Proto, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A webhook that is told to stop is not ready any more, serves on for the delay, and asks for new
// connections meanwhile.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d drain
		handler := d.closing(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		closes := func() bool {
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", nil))
			return response.Header().Get("Connection") == "close"
		}
		signal, stop := context.WithCancel(t.Context())
		later := d.follow(signal, time.After, 5*time.Second)
		synctest.Wait()
		if closes() || d.check(nil) != nil || later.Err() != nil {
			t.Error("it drains before it was told to stop")
		}
		stop()
		synctest.Wait()
		if !closes() || d.check(nil) == nil || later.Err() != nil {
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
