package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/test/builders"
)

// oneCertificate is a provider of one certificate.
type oneCertificate struct {
	certs.Provider
	certificate *tls.Certificate
}

func (o oneCertificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return o.certificate, nil
}

// scrape returns the status and the answer of /metrics.
func scrape(t *testing.T, client *http.Client, url, token string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	if response.ProtoMajor != 1 {
		t.Errorf("it speaks %s", response.Proto)
	}
	return response.StatusCode, string(text)
}

// serveMetrics serves /metrics until the test ends, and returns the address.
func serveMetrics(t *testing.T, p *process, apiServer string) string {
	t.Helper()
	p.options.metricsAddr = "127.0.0.1:0"
	s, err := server.NewServer(p.metrics(), &rest.Config{Host: apiServer}, http.DefaultClient)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var address string
	must(t, wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		address = s.(interface{ GetBindAddr() string }).GetBindAddr()
		return address != "", nil
	}))
	return address
}

// With --metrics-secure, /metrics takes a token for the API server and the verb get on it. The
// webhook shows its own certificate, and a controller makes one. Both speak HTTP/1.1.
func TestSecureMetrics(t *testing.T) {
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			review := &authenticationv1.TokenReview{}
			_ = json.NewDecoder(r.Body).Decode(review)
			review.Status.Authenticated = review.Spec.Token != "stale" && len(review.Spec.Audiences) == 0
			review.Status.User.Username = review.Spec.Token
			answer = review
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			review := &authorizationv1.SubjectAccessReview{}
			_ = json.NewDecoder(r.Body).Decode(review)
			asked := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "prometheus" && asked != nil && *asked == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
			answer = review
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer cluster.Close()
	lender := httptest.NewTLSServer(http.NotFoundHandler()) // It brings a certificate, and a client that trusts it.
	defer lender.Close()
	p := &process{options: defaultOptions()}
	plain := serveMetrics(t, p, "")
	if status, text := scrape(t, http.DefaultClient, "http://"+plain+"/metrics", ""); status != http.StatusOK || !strings.Contains(text, "go_goroutines ") {
		t.Errorf("without --metrics-secure: %d %s", status, text)
	}
	p.options.metricsSecure, p.certificates = true, oneCertificate{certificate: &lender.TLS.Certificates[0]}
	client := lender.Client()
	transport := client.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = true, []string{"h2", "http/1.1"}
	webhook := serveMetrics(t, p, cluster.URL)
	if status, _ := scrape(t, client, "https://"+webhook+"/metrics", "prometheus"); status != http.StatusOK {
		t.Errorf("the webhook answers %d", status)
	}
	p.certificates = nil
	url := "https://" + serveMetrics(t, p, cluster.URL) + "/metrics"
	scraper := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // #nosec G402 -- it is self-signed
	defer scraper.CloseIdleConnections()
	for token, want := range map[string]struct {
		status int
		body   string
	}{
		"prometheus": {http.StatusOK, "go_goroutines "},
		"":           {http.StatusUnauthorized, "Unauthorized"},
		"stale":      {http.StatusInternalServerError, "Authentication failed"},
		"ann":        {http.StatusForbidden, "Authorization denied for user ann"},
	} {
		if status, body := scrape(t, scraper, url, token); status != want.status || !strings.Contains(body, want.body) {
			t.Errorf("token %q: %d %.300s, want %d %s", token, status, body, want.status, want.body)
		}
	}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}}} // #nosec G402 -- the same
	if response, err := old.Get(url); err == nil {
		response.Body.Close()
		t.Error("it serves TLS 1.2 with --tls-min-version=1.3")
	}
}

var must = builders.Must
