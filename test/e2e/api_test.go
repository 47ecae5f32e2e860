package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/test/harness"
)

// policyOf is a LifecyclePolicy with the name of the space, and for it alone.
func (s *space) policyOf(spec string) string {
	return fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: %s}, spec: {match: {namespaceSelector: "+
		"{matchLabels: {kubernetes.io/metadata.name: %[1]s}}}, %s}}", s.name, spec)
}

// The HTTP API follows the policies of the cluster without a restart; a posted one goes before, and
// offline there are none.
func TestHTTPAPIFollowsThePolicies(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectSuccess(s.kubectl("create", "serviceaccount", "asker"))
	s.mayAsk("asker")
	t.Cleanup(func() {
		if out := s.afterwards("delete", "lifecyclepolicy", "--ignore-not-found", s.name); out.failed {
			t.Error(out.stderr)
		}
	})
	token := strings.TrimSpace(s.kubectl("create", "token", "asker", "--audience", "curfew.dev").stdout)
	manifest := s.manifest(job("a"))
	ask := func(path, manifests string) (int, *lint.Report) {
		t.Helper()
		status, answer, err := suite.cluster.Ask(s.ctx, suite.webhook, harness.Question{Path: path + "namespace=" + s.name, Manifests: manifests, Token: token})
		s.ok(err)
		report := &lint.Report{}
		s.ok(json.Unmarshal([]byte(answer), report))
		return status, report
	}
	// given is the one default that the policy gives.
	given := func(status int, report *lint.Report) string {
		if status != http.StatusOK || len(report.Defaults) != 1 || report.Defaults[0].Source != "policy/"+s.name {
			return ""
		}
		return report.Defaults[0].Value
	}
	until := func(what, want string) {
		t.Helper()
		var status int
		var report *lint.Report
		err := harness.Poll(s.ctx, t.Name()+": "+what, func(context.Context) (bool, error) {
			status, report = ask("/v1/default?", manifest)
			return status == http.StatusOK && given(status, report) == want, nil
		})
		if err != nil {
			t.Errorf("%s: it answers %d %+v, want %q", what, status, report, want)
		}
	}
	until("no policy", "")
	s.expectSuccess(s.kubectlInput(s.policyOf("defaults: {ttl: {value: 1h}}"), "apply", "-f", "-"))
	until("a policy that is created", "3600 (1h)")
	s.expectSuccess(s.kubectlInput(s.policyOf("defaults: {ttl: {value: 2h}}"), "apply", "-f", "-"))
	until("a policy that is changed", "7200 (2h)")
	if got := given(ask("/v1/default?", s.policyOf("defaults: {ttl: {value: 3h}}")+"\n---\n"+manifest)); got != "10800 (3h)" {
		t.Errorf("a posted policy of the same name gives %q", got)
	}
	if status, report := ask("/v1/default?offline=true&", manifest); status != http.StatusOK || len(report.Defaults) > 0 {
		t.Errorf("offline it answers %d %+v", status, report)
	}
	s.expectSuccess(s.kubectl("delete", "lifecyclepolicy", s.name))
	until("a policy that is gone", "")
}

// What lint says of a policy, admission says too, the API server's own refusals by schema included.
func TestLintRefusesThePoliciesThatTheAPIServerRefuses(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	for name, spec := range map[string]string{
		"an expression":    "defaults: {ttl: {expression: objekt}}",
		"a value":          "defaults: {ttl: {value: soon}}",
		"a rule":           "defaults: {ttl: {value: 1h, expression: \"'1h'\"}}",
		"an unknown field": "defaults: {ttl: {value: 1h}}, weight: 5",
		"nothing":          "priority: 3",
	} {
		refused := s.kubectlInput(s.policyOf(spec), "create", "-f", "-", "--dry-run=server")
		if !refused.failed {
			t.Errorf("%s: the API server takes it", name)
		}
		stdout, _, err := suite.cluster.KubectlInput(s.ctx, s.policyOf(spec), "curfew", "lint", "-f", "-", "-o", "json")
		report := s.lintReport(stdout)
		if err == nil || len(report.Findings) != 1 {
			t.Errorf("%s: lint finds %+v", name, report.Findings)
			continue
		}
		// Where the schema refuses a value, lint adds the fix behind what the API server says.
		said, _, _ := strings.Cut(report.Findings[0].Message, "; ")
		said, _, _ = strings.Cut(said, ": remove it")
		// Up to 1.34 the API server names the type of the value, too.
		answer := strings.ReplaceAll(refused.stderr, `Invalid value: "object": `, "Invalid value: ")
		if !strings.Contains(answer, said) || !strings.Contains(answer, report.Findings[0].Field) {
			t.Errorf("%s: lint says %q of %s, and the API server\n%s", name, said, report.Findings[0].Field, refused.stderr)
		}
	}
}
