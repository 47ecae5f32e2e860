package api

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestListenTLS(t *testing.T) {
	// httptest brings a certificate, and a client that trusts it.
	lender := httptest.NewTLSServer(http.NotFoundHandler())
	defer lender.Close()
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: lender.TLS.Certificates}
	ctx, cancel := context.WithCancel(t.Context())
	server, err := ListenTLS(ctx, "127.0.0.1:0", newRouter(t, &world{}), config)
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	response, err := lender.Client().Get("https://" + server.Addr().String() + "/healthz")
	must(t, err)
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || string(body) != "ok\n" || response.TLS == nil {
		t.Errorf("status %d, %q, %v", response.StatusCode, body, err)
	}
	if response, err := http.Get("http://" + server.Addr().String() + "/healthz"); err == nil && response.StatusCode == http.StatusOK {
		t.Error("it answers without TLS, too")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := ListenTLS(t.Context(), "127.0.0.1:port", nil, config); err == nil {
		t.Error("an address that is none was bound")
	}
}
