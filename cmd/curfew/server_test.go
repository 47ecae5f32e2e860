package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/webhook"
)

// serverManager keeps the server that is added.
type serverManager struct {
	ctrl.Manager
	server manager.Runnable
}

func (m *serverManager) Add(runnable manager.Runnable) error {
	m.server = runnable
	return nil
}

// held answers once it is released.
type held struct {
	webhook.NamespaceGetter
	asked, release chan struct{}
}

func (h held) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	h.asked <- struct{}{}
	<-h.release
	return resolution.ParseNamespace(name, nil, nil), ctx.Err()
}

// The webhooks speak HTTP/1.1 also to a client that prefers HTTP/2, are ready once they answer, and
// a server that stops answers the requests under way.
func TestWebhookServer(t *testing.T) {
	store, err := platform.New(nil)
	must(t, err)
	namespaces := held{asked: make(chan struct{}), release: make(chan struct{})}
	handlers, err := webhook.New(webhook.Options{Platform: store, Namespaces: namespaces, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
	must(t, err)
	lender := httptest.NewTLSServer(http.NotFoundHandler()) // a certificate, and a client that trusts it
	defer lender.Close()
	port, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	mgr := &serverManager{}
	a := &admission{process: &process{mgr: mgr, options: defaultOptions()}, handlers: handlers, certificate: &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &lender.TLS.Certificates[0], nil }}}
	a.options.host, a.options.port = "127.0.0.1", port.Addr().(*net.TCPAddr).Port
	must(t, port.Close())
	must(t, a.addServer(t.Context()))
	if a.started(nil) == nil {
		t.Error("it is ready before it listens")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.server.Start(ctx) }()
	for a.started(nil) != nil {
		runtime.Gosched()
	}
	client := lender.Client()
	transport := client.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = true, []string{"h2", "http/1.1"}
	answered := make(chan string)
	go func() {
		const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","namespace":"ci",` +
			`"kind":{"group":"batch","version":"v1","kind":"Job"},"object":{"metadata":{"annotations":{"curfew.dev/protect":"true"}}}}}`
		response, err := client.Post(fmt.Sprintf("https://127.0.0.1:%d%s", a.options.port, webhook.PathMutate), "application/json", strings.NewReader(review))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		answered <- fmt.Sprint(response.Proto, " ", response.StatusCode, " ", string(text), err)
	}()
	<-namespaces.asked
	cancel()
	close(namespaces.release)
	if text := <-answered; !strings.HasPrefix(text, "HTTP/1.1 200 ") || !strings.Contains(text, `"allowed":true`) {
		t.Errorf("a request under way was answered with %s", text)
	}
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
