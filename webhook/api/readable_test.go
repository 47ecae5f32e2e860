package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWhatTheCallerMayNotReadIsNotShown: a namespace or runtime shows in the findings only to
// callers who may get it.
func TestWhatTheCallerMayNotReadIsNotShown(t *testing.T) {
	const manifests = `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci}, spec: {ttlSecondsAfterFinished: 864000}}
---
{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: b, namespace: ci, annotations: {curfew.dev/ttl-after-finished: 3d}}, spec: {runtimeRef: {name: torch}}}
`
	answer := func(hidden map[string]string) (int, string) {
		w := &world{hidden: hidden}
		request := httptest.NewRequest(http.MethodPost, PathValidate, strings.NewReader(manifests))
		request.Header.Set("Content-Type", "application/yaml")
		request.Header.Set("Authorization", "Bearer ann")
		recorder := httptest.NewRecorder()
		newRouter(t, w).ServeHTTP(recorder, request)
		return recorder.Code, recorder.Body.String()
	}
	const bound = "above curfew.dev/max-ttl 7d"
	if code, text := answer(nil); code != http.StatusOK || !strings.Contains(text, bound) || !strings.Contains(text, "2d") {
		t.Errorf("who may read all: %d %s", code, text)
	}
	code, text := answer(map[string]string{"namespaces ci/ci": "yes", "clustertrainingruntimes /torch": "yes"})
	if code != http.StatusOK || strings.Contains(text, bound) || strings.Contains(text, "2d") ||
		!strings.Contains(text, `namespace \"ci\" cannot be read with your permissions`) {
		t.Errorf("who may read neither: %d %s", code, text)
	}
	if code, text := answer(map[string]string{"namespaces ci/ci": "broken"}); code != http.StatusServiceUnavailable || strings.Contains(text, "10.0.0.1") {
		t.Errorf("where the review fails: %d %s", code, text)
	}
}
