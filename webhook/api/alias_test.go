package api

import (
	"net/http"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/rules"
)

// TestKyvernoLabelIsReviewed: with --kyverno-label of the webhook, and only then, its alias is
// judged as the label is, cluster or none.
func TestKyvernoLabelIsReviewed(t *testing.T) {
	const manifest = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo", "namespace": "ci", "labels": {"cleanup.kyverno.io/ttl": "soon"}}}`
	for _, understood := range []bool{true, false} {
		for _, path := range []string{"/v1/validate", "/v1/validate?offline=true"} {
			asked := decisions(t, &world{})
			asked.Settings.Rules = rules.Options{KyvernoLabel: understood, StrictLabels: true}
			recorder := call{path: path, body: manifest, token: "ann"}.do(New(asked))
			if ok := strings.Contains(recorder.Body.String(), `"field":"metadata.labels[cleanup.kyverno.io/ttl]"`); recorder.Code != http.StatusOK || ok != understood {
				t.Errorf("%s, understood: %t: %d %s", path, understood, recorder.Code, recorder.Body)
			}
		}
	}
}
