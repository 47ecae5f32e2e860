package e2e

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/test/harness"
)

// A posted KindProfile directs no read of the cluster, and its author sees nothing that Curfew
// reads.
func TestHostileHTTPAPIReads(t *testing.T) {
	s, theirs := newSpace(t), newSpace(t)
	const secret = "correct-horse-battery-staple"
	s.ok(theirs.createSecret("db", secret))
	s.ok(s.createSecret("db", secret))
	s.expectSuccess(s.kubectl("create", "serviceaccount", "asker"))
	s.mayAsk("asker")
	token := strings.TrimSpace(s.kubectl("create", "token", "asker", "--audience", "curfew.dev").stdout)
	for _, namespace := range []string{s.name, theirs.name} {
		for _, path := range []string{"/v1/validate?namespace=", "/v1/default?namespace="} {
			manifests := fmt.Sprintf(`apiVersion: curfew.dev/v1alpha1
kind: KindProfile
metadata: {name: runs.oracle.example.com}
spec:
  kind: {group: oracle.example.com, version: v1, kind: Run, resource: runs}
  state: {finished: "false", finishTime: "null", outcome: "'Failed'"}
  runtime:
    reference: {name: spec.plan, defaultKind: Secret}
    kinds: [{group: "", version: v1, kind: Secret, resource: secrets, ttl: [data.password]}]
---
apiVersion: oracle.example.com/v1
kind: Run
metadata: {name: a, namespace: %s}
spec: {plan: db}
`, namespace)
			status, answer, err := suite.cluster.Ask(s.ctx, suite.webhook, harness.Question{Path: path + namespace, Manifests: manifests, Token: token})
			s.ok(err)
			for _, text := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
				if strings.Contains(answer, text) {
					t.Errorf("%s shows the Secret of %s: %d %s", path, namespace, status, cut(answer))
				}
			}
		}
	}
	forbidden, err := suite.cluster.Forbidden()
	s.ok(err)
	if i := slices.IndexFunc(forbidden, func(request string) bool { return strings.Contains(request, "secrets") }); i >= 0 {
		t.Errorf("a posted profile made Curfew ask: %s", forbidden[i])
	}
}

func (s *space) createSecret(name, password string) error {
	_, err := suite.cluster.Client.CoreV1().Secrets(s.name).Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": password}}, metav1.CreateOptions{})
	return err
}
