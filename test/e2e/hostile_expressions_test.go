package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// bombs are expressions that are short and cost a compiler gigabytes, or that are easy to parse
// slowly.
func bombs() map[string]string {
	return map[string]string{
		"nested macros":      "object.?a" + strings.Repeat(".optMap(v,v)", 12) + ".hasValue()",
		"macros in macros":   strings.Repeat("[1].all(x, ", 40) + "true" + strings.Repeat(")", 40),
		"many parentheses":   strings.Repeat("(", 2_000) + "true" + strings.Repeat(")", 2_000),
		"many negations":     strings.Repeat("!", 4_000) + "true",
		"a long sum":         "1" + strings.Repeat("+1", 2_000) + " > 0",
		"many conditionals":  strings.Repeat("true ? true : ", 250) + "true",
		"a very long string": `"` + strings.Repeat("a", 300_000) + `" != ""`,
	}
}

// An expression that would exhaust its compiler is refused with the policy or the profile that it
// is in, by the schema or by Curfew, within seconds; and Curfew goes on answering.
func TestHostileExpressions(t *testing.T) {
	s := bounded(t)
	for what, expression := range bombs() {
		quoted, err := json.Marshal(expression)
		s.ok(err)
		for kind, text := range map[string]string{
			"lifecyclepolicies": fmt.Sprintf(`{"apiVersion":"curfew.dev/v1alpha1","kind":"LifecyclePolicy","metadata":{"name":%q},"spec":{"match":{"matchConditions":[{"name":"a","expression":%s}]},
				"defaults":{"ttl":{"value":"1h"}}}}`, s.name, quoted),
			"kindprofiles": fmt.Sprintf(`{"apiVersion":"curfew.dev/v1alpha1","kind":"KindProfile","metadata":{"name":"bombs.bomb.example.com"},"spec":{
				"kind":{"group":"bomb.example.com","version":"v1","kind":"Bomb","resource":"bombs"},"state":{"finished":%s,"finishTime":"null","outcome":"'Failed'"}}}`, quoted),
		} {
			got := s.send(hostile{method: http.MethodPost, path: "/apis/curfew.dev/v1alpha1/" + kind + "?dryRun=All", body: []byte(text)})
			switch {
			case got.code != http.StatusForbidden && got.code != http.StatusUnprocessableEntity && got.code != http.StatusCreated:
				t.Errorf("%s in %s: %s", what, kind, got)
			case got.code == http.StatusCreated && what == "nested macros":
				t.Errorf("%s in %s is admitted", what, kind)
			}
		}
	}
	s.answersOthers()
}

// The HTTP API is as hard to exhaust: without a token it does nothing at all, and with one what it
// is asked is bounded.
func TestHostileHTTPAPI(t *testing.T) {
	s := bounded(t)
	s.expectSuccess(s.kubectl("create", "serviceaccount", "asker"))
	s.mayAsk("asker")
	token := strings.TrimSpace(s.kubectl("create", "token", "asker", "--audience", "curfew.dev").stdout)
	questions := map[string]string{
		"a long duration": s.manifest(job("long", annotated(wellknown.AnnotationTTL, strings.Repeat("1s", 100_000)))),
		"a bomb":          s.policyOf(fmt.Sprintf("defaults: {ttl: {value: 1h}}, match: {matchConditions: [{name: a, expression: %q}]}", bombs()["nested macros"])),
		"members":         `{"apiVersion":"x.dev/v1","kind":"Wide","metadata":{"name":"a"},"spec":` + members(many) + `}`,
		"depth":           `{"apiVersion":"x.dev/v1","kind":"Deep","metadata":{"name":"a"},"spec":` + nested(9_990) + `}`,
		"many documents":  strings.Repeat("1\n---\n", 40_000),
	}
	for what, manifests := range questions {
		for _, path := range []string{"/v1/validate?offline=true", "/v1/validate?namespace=" + s.name, "/v1/default?namespace=" + s.name} {
			for _, who := range []string{"", token} {
				status, answer, err := suite.cluster.Ask(s.ctx, suite.webhook, harness.Question{Path: path, Manifests: manifests, Token: who})
				switch {
				case err != nil:
					t.Errorf("%s to %s: %v", what, path, err)
				case who == "" && !strings.Contains(path, "offline") && status != http.StatusUnauthorized:
					t.Errorf("%s to %s without a token: %d %s", what, path, status, cut(answer))
				}
			}
		}
	}
	s.answersOthers()
}

// policyOf is a LifecyclePolicy with the name of the space, and for it alone.
func (s *space) policyOf(spec string) string {
	return fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: %s}, spec: {match: {namespaceSelector: "+
		"{matchLabels: {kubernetes.io/metadata.name: %[1]s}}}, %s}}", s.name, spec)
}
