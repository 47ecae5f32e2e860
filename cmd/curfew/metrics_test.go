package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
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

// With --metrics-secure, /metrics takes a token for the API server and the verb get on it. The
// webhook shows its own certificate, and the metrics server makes one for the controller.
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
	if err != nil {
		t.Fatal(err)
	}
	p := &process{options: defaultOptions(), typed: client, certificates: oneCertificate{certificate: &tls.Certificate{}}}
	if plain := p.metrics(parts{webhook: true}); plain.SecureServing || plain.FilterProvider != nil || plain.BindAddress != ":8080" {
		t.Errorf("without the flag it serves %+v", plain)
	}
	p.options.metricsSecure = true
	for _, webhook := range []bool{true, false} {
		config := &tls.Config{}
		for _, set := range p.metrics(parts{webhook: webhook}).TLSOpts {
			set(config)
		}
		if config.MinVersion != tls.VersionTLS13 || (config.GetCertificate != nil) != webhook {
			t.Errorf("webhook %t: TLS from %x, own certificate %t", webhook, config.MinVersion, config.GetCertificate != nil)
		}
	}
	secure := p.metrics(parts{})
	if !secure.SecureServing {
		t.Error("it is not served over TLS")
	}
	filter, err := secure.FilterProvider(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "curfew_build_info 1") }))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]struct {
		status int
		body   string
	}{
		"prometheus": {http.StatusOK, "curfew_build_info 1"},
		"":           {http.StatusUnauthorized, "no token: send the header Authorization: Bearer TOKEN"},
		"stale":      {http.StatusUnauthorized, "the cluster does not know the token, or it has another audience: send one as kubectl create token makes"},
		"ann":        {http.StatusForbidden, `user "ann" may not get /metrics: have a ClusterRole with nonResourceURLs /metrics and verbs get bound to you`},
	} {
		recorder, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		handler.ServeHTTP(recorder, request)
		body := recorder.Body.String()
		var problem struct{ Detail string }
		if json.Unmarshal([]byte(body), &problem) == nil {
			body = problem.Detail
		}
		if recorder.Code != want.status || body != want.body {
			t.Errorf("token %q: %d %s, want %d %s", token, recorder.Code, body, want.status, want.body)
		}
	}
}
