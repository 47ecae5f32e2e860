package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"curfew.dev/curfew/test/harness"
)

// TestSecureMetrics: with --metrics-secure and the roles of component secure-metrics, /metrics is TLS,
// and shows itself only to a user with ClusterRole curfew-metrics-reader.
func TestSecureMetrics(t *testing.T) {
	s := newSpace(t)
	root, err := harness.Root()
	s.ok(err)
	s.expectSuccess(s.kubectl("apply", "-f", filepath.Join(root, "manifests", "components", "secure-metrics", "rbac.yaml")))
	s.expectSuccess(s.kubectl("create", "serviceaccount", "scraper"))
	s.expectSuccess(s.kubectl("create", "serviceaccount", "other"))
	s.expectSuccess(s.kubectl("create", "clusterrolebinding", s.name, "--clusterrole=curfew-metrics-reader", "--serviceaccount="+s.name+":scraper"))
	t.Cleanup(func() { s.afterwards("delete", "clusterrolebinding", s.name) })
	for _, ask := range []string{"create tokenreviews --as=system:serviceaccount:curfew-system:curfew-controller",
		"create subjectaccessreviews --as=system:serviceaccount:curfew-system:curfew-controller", "get /metrics --as=system:serviceaccount:" + s.name + ":scraper"} {
		s.ok(harness.Poll(s.ctx, t.Name()+": "+ask, func(context.Context) (bool, error) {
			return !s.kubectl(append([]string{"auth", "can-i"}, strings.Fields(ask)...)...).failed, nil
		}))
	}
	standby, err := suite.cluster.StartController(s.ctx, harness.CurfewOptions{Name: "controller-secure", Args: []string{"--metrics-secure"}})
	s.ok(err)
	defer func() { s.ok(standby.Stop(s.ctx)) }()

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // #nosec G402 -- it is self-signed
	defer transport.CloseIdleConnections()
	for _, test := range []struct {
		token  string
		status int
		body   string
	}{
		{"", http.StatusUnauthorized, "Unauthorized"},
		{"invalid", http.StatusInternalServerError, "Authentication failed"},
		{strings.TrimSpace(s.expectSuccess(s.kubectl("create", "token", "other")).stdout), http.StatusForbidden, "Authorization denied for user"},
		{strings.TrimSpace(s.expectSuccess(s.kubectl("create", "token", "scraper")).stdout), http.StatusOK, "curfew_build_info{"},
	} {
		request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "https://"+standby.Metrics+"/metrics", nil)
		s.ok(err)
		if test.token != "" {
			request.Header.Set("Authorization", "Bearer "+test.token)
		}
		var response *http.Response
		s.ok(harness.Poll(s.ctx, t.Name()+": a connection", func(context.Context) (bool, error) { // It may be ready a moment before it serves metrics.
			response, err = (&http.Client{Transport: transport, Timeout: harness.Patience}).Do(request)
			return err == nil, nil
		}))
		body, err := io.ReadAll(response.Body)
		s.ok(errors.Join(err, response.Body.Close()))
		if response.StatusCode != test.status || !strings.Contains(string(body), test.body) {
			t.Errorf("it answers %s %.200s, want %d %s", response.Status, body, test.status, test.body)
		}
	}
	if _, err := standby.Scrape(s.ctx); err == nil {
		t.Error("it answers plain HTTP, too")
	}
}
