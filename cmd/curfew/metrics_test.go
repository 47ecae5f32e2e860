package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/certs"
)

// oneCertificate is a provider of one certificate.
type oneCertificate struct {
	certs.Provider
	certificate *tls.Certificate
}

func (o oneCertificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return o.certificate, nil
}

// scrape returns the status and the answer of /metrics, or the detail of a problem.
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
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) == nil {
		return response.StatusCode, problem.Detail
	}
	return response.StatusCode, string(text)
}

// serveMetrics serves /metrics until the test ends, and returns the address.
func serveMetrics(t *testing.T, p *process) string {
	t.Helper()
	p.options.metricsAddr = "127.0.0.1:0"
	server, err := p.metrics(t.Context())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server.Addr().String()
}

// S9: anyone may open connections to /metrics. It has the limits of the HTTP API, which
// webhook/api tests.
func TestMetricsAreBounded(t *testing.T) {
	p := &process{options: defaultOptions()}
	address := serveMetrics(t, p)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if status, text := scrape(t, client, "http://"+address+"/metrics", ""); status != http.StatusOK || !strings.Contains(text, "go_goroutines ") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := scrape(t, client, "http://"+address+"/metrics", strings.Repeat("a", 100<<10)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("100 KiB of headers: %d", status)
	}
	if status, _ := scrape(t, client, "http://"+address+"/debug/pprof/", ""); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
	address = serveMetrics(t, p) // None of its connections is about to close.
	for i := range maxConnections + 1 {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		must(t, err)
		defer connection.Close()
		_, _ = io.WriteString(connection, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
		if n, err := connection.Read(make([]byte, 1)); (n == 1) != (i < maxConnections) {
			t.Fatalf("connection %d reads %d bytes of an answer: %v", i+1, n, err)
		}
	}
	p.options.metricsAddr = "0"
	if server, err := p.metrics(t.Context()); server != nil || err != nil {
		t.Errorf("--metrics-addr=0: %v, %v", server, err)
	}
}

// With --metrics-secure, /metrics takes a token for the API server and the verb get on it. The
// webhook shows its own certificate, and a controller makes one.
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
	client, err := kubernetes.NewForConfig(&rest.Config{Host: cluster.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	must(t, err)
	lender := httptest.NewTLSServer(http.NotFoundHandler()) // It brings a certificate, and a client that trusts it.
	defer lender.Close()
	p := &process{options: defaultOptions(), typed: client, certificates: oneCertificate{certificate: &lender.TLS.Certificates[0]}, log: logr.Discard()}
	p.options.metricsSecure = true
	webhook := serveMetrics(t, p)
	if status, _ := scrape(t, lender.Client(), "https://"+webhook+"/metrics", "prometheus"); status != http.StatusOK {
		t.Errorf("the webhook answers %d", status)
	}
	p.certificates = nil
	url := "https://" + serveMetrics(t, p) + "/metrics"
	scraper := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // #nosec G402 -- it is self-signed
	defer scraper.CloseIdleConnections()
	for token, want := range map[string]struct {
		status int
		body   string
	}{
		"prometheus": {http.StatusOK, "go_goroutines "},
		"":           {http.StatusUnauthorized, "no token: send the header Authorization: Bearer TOKEN"},
		"stale":      {http.StatusUnauthorized, "the cluster does not know the token, or it has another audience: send one as kubectl create token makes"},
		"ann":        {http.StatusForbidden, `user "ann" may not get /metrics: have a ClusterRole with nonResourceURLs /metrics and verbs get bound to you`},
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
