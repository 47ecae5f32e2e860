package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// TestErrorsAreNoDenials: an AdmissionReview with allowed=false under a 200 is a rejection to the
// API server, so that an error has to be one of HTTP for the failure policy to decide.
func TestErrorsAreNoDenials(t *testing.T) {
	var unready error
	for name, change := range map[string]func(*namespaces){
		"namespace cannot be read": func(n *namespaces) { n.err = errors.New("dial tcp 10.0.0.1:443: connection refused") },
		"panic":                    func(n *namespaces) { n.panics = true },
		"not ready":                func(*namespaces) { unready = errors.New("the list of 10.0.0.1 failed") },
	} {
		for _, path := range []string{PathMutate, PathValidate} {
			t.Run(name+path, func(t *testing.T) {
				w := newWorld(t, func(o *Options) { o.Ready = func() error { return unready } })
				change(w.namespaces)
				body, err := json.Marshal(ask{path: path, namespace: "ci", object: job}.review(t))
				must(t, err)
				status, review := w.post(t, path, body)
				result := review.Response.Result
				if status != http.StatusInternalServerError || result.Code != http.StatusInternalServerError || result.Reason == "Forbidden" {
					t.Errorf("HTTP %d, result %d %s", status, result.Code, result.Reason)
				}
				if review.Response.UID == "" || review.Response.Allowed || len(review.Response.Patch) > 0 {
					t.Errorf("response %+v", review.Response)
				}
				for _, detail := range []string{"10.0.0.1", "a bug", "goroutine", ".go:"} {
					if strings.Contains(result.Message, detail) {
						t.Errorf("message tells of the inside: %s", result.Message)
					}
				}
				if got := w.reviews(t, path[1:], "CREATE", "Job", "error"); got != 1 {
					t.Errorf("%v errors counted, want 1", got)
				}
				unready = nil
				if status, _ := w.post(t, PathValidateNamespace, mustReview(t)); status != http.StatusOK {
					t.Errorf("the server does not go on: %d", status)
				}
			})
		}
	}
}

func mustReview(t *testing.T) []byte {
	t.Helper()
	body, err := json.Marshal(ask{path: PathValidateNamespace, namespace: "ci", object: namespace("", "")}.review(t))
	must(t, err)
	return body
}

// TestMetricsAreBounded: neither invented kinds nor namespaces make new series.
func TestMetricsAreBounded(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"A", "B", "C"} {
		w.ask(t, ask{path: PathValidate, object: "{apiVersion: example.org/v1, kind: " + kind + "}"})
	}
	if got := w.reviews(t, "validate", "CREATE", "other", "allowed"); got != 3 {
		t.Errorf("%v reviews of other kinds, want 3", got)
	}
	w.ask(t, ask{path: PathValidate, operation: string(admissionv1.Delete), object: job, namespace: "ci"})
	if got := w.reviews(t, "validate", "DELETE", "Job", "allowed"); got != 1 {
		t.Errorf("%v DELETEs, want 1", got)
	}
	families, err := w.registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if name := label.GetName(); name == "namespace" || name == "name" {
					t.Errorf("%s has label %s", family.GetName(), name)
				}
			}
			if histogram := metric.GetHistogram(); histogram != nil && (histogram.GetSampleCount() != 4 || histogram.GetSampleSum() <= 0) {
				t.Errorf("%s: %v s over %d requests", family.GetName(), histogram.GetSampleSum(), histogram.GetSampleCount())
			}
		}
	}
}
