package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzReview sends any object by any path: nothing panics, every answer is one of the four,
// warnings fit their header, and a patch applies and says all there is to say.
func FuzzReview(f *testing.F) {
	kinds := []metav1.GroupVersionKind{
		{Group: "batch", Version: "v1", Kind: "Job"}, {Version: "v1", Kind: "Pod"}, {Group: "batch", Version: "v1", Kind: "CronJob"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "Namespace"}, {Group: "example.org", Version: "v1", Kind: "Thing"},
		{Group: "curfew.dev", Version: "v1alpha1", Kind: "LifecyclePolicy"},
	}
	spaces := []string{"", "plain", "ci", "outcome", "pods", "bounded", "dead", "soft", "dry"}
	paths := []string{PathMutate, PathValidate, PathMutateNamespace, PathValidateNamespace, PathValidatePolicy}
	for i, object := range []string{
		job, pod, cronJob, defaulted, inTemplate, own("5"), annotated("soon"), stamped("1d", since(hash1d)), namespace("", "curfew.dev/max-ttl: x"),
		"{metadata: {ownerReferences: [{controller: true, kind: CronJob, apiVersion: batch/v1}]}, status: {conditions: [{type: Complete, status: 'True'}]}}",
		"{metadata: {creationTimestamp: x, deletionTimestamp: 7, finalizers: {}, ownerReferences: [1]}, spec: {suspend: 1, template: []}, status: {phase: Failed, containerStatuses: [1]}}",
		"{spec: {match: {matchConditions: [{name: a, expression: 'object.spec ==='}]}, defaults: {ttl: {value: soon}}}}",
	} {
		f.Add(uint8(i), uint8(i), uint8(i), i%2 == 0, toJSON(f, object), toJSON(f, job))
	}
	f.Add(uint8(0), uint8(0), uint8(2), false, []byte(`{},"spec":{}}`), []byte(`{},"spec":{`))
	w := newWorld(f)
	w.namespaces.live = w.namespaces.cached
	f.Fuzz(func(t *testing.T, path, kind, space uint8, update bool, object, old []byte) {
		target, gvk := paths[int(path)%len(paths)], kinds[int(kind)%len(kinds)]
		operation := admissionv1.Create
		if update {
			operation = admissionv1.Update
		}
		// By hand, since it may be no JSON.
		body := func(object []byte) []byte {
			return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":%q,"version":%q,"kind":%q},"namespace":%q,"operation":%q,"object":%s,"oldObject":%s}}`,
				gvk.Group, gvk.Version, gvk.Kind, spaces[int(space)%len(spaces)], operation, object, old)
		}
		send := func(object []byte) *admissionv1.AdmissionResponse {
			w.clock.now = t0
			return sendFuzzed(t, w, target, body(object))
		}
		response := send(object)
		if response == nil || len(response.Patch) == 0 {
			return
		}
		if !json.Valid(object) || !json.Valid(old) {
			return // it closed the object early: together they are a review all the same, and the patch is for another object
		}
		patch, err := jsonpatch.DecodePatch(response.Patch)
		must(t, err)
		patched, err := patch.Apply(object)
		if err != nil {
			t.Fatalf("patch %s: %v", response.Patch, err)
		}
		if again := send(patched); again == nil || len(again.Patch) > 0 {
			t.Fatalf("not idempotent: %s, then %v", response.Patch, again)
		}
	})
}

// FuzzBody sends anything at all, by any method and content type: it is answered like a review or
// refused like a bad request.
func FuzzBody(f *testing.F) {
	for i, body := range []string{
		string(capturedReview(f)), ``, `{}`, `[]`, `null`, `hello`, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","kind":{"group":"batch","version":"v1","kind":"Job"},"namespace":"ci","object":{}}}`,
	} {
		f.Add(uint8(i), uint8(i), "application/json", []byte(body))
		f.Add(uint8(i), uint8(0), "text/plain", []byte(body))
	}
	f.Add(uint8(0), uint8(0), "application/json", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","kind":{"group":"batch","version":"v1","kind":"Job"},"namespace":"elsewhere","object":{}}}`))
	w := newWorld(f)
	w.namespaces.cached["bench-curfew"] = map[string]string{"curfew.dev/default-ttl": "1d"}
	methods := []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodHead, "FUZZ"}
	paths := []string{PathMutate, PathValidate, PathMutateNamespace, PathValidateNamespace, PathValidatePolicy}
	f.Fuzz(func(t *testing.T, path, method uint8, contentType string, body []byte) {
		request := httptest.NewRequest(methods[int(method)%len(methods)], paths[int(path)%len(paths)], bytes.NewReader(body))
		request.Header["Content-Type"] = []string{contentType}
		recorder := httptest.NewRecorder()
		w.mux.ServeHTTP(recorder, request)
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
			t.Fatalf("answered with HTTP %d %s", recorder.Code, recorder.Body)
		}
		parsed := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{}}
		unreadable := json.Unmarshal(body, &parsed) != nil || parsed.Request == nil || parsed.Request.UID == ""
		switch recorder.Code {
		case http.StatusOK:
			if review.Response.UID == "" || unreadable && review.Response.Allowed {
				t.Fatalf("%q is answered, and is no review: %s", body, recorder.Body)
			}
		case http.StatusInternalServerError: // an unreadable namespace
			if unreadable || w.namespaces.cached[parsed.Request.Namespace] != nil {
				t.Fatalf("HTTP %d for %q: %s", recorder.Code, body, recorder.Body)
			}
		case http.StatusBadRequest:
		default:
			t.Fatalf("HTTP %d: %s", recorder.Code, recorder.Body)
		}
		if status := review.Response.Result; recorder.Code != http.StatusOK && (review.Response.Allowed || int(status.Code) != recorder.Code || status.Message == "") {
			t.Fatalf("HTTP %d with %+v", recorder.Code, review.Response)
		}
	})
}

// sendFuzzed returns what was answered, or nil where the review was refused.
func sendFuzzed(t *testing.T, w *world, path string, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	w.mux.ServeHTTP(recorder, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("answered with HTTP %d %s", recorder.Code, recorder.Body)
	}
	response, code := review.Response, int32(http.StatusOK)
	if response.Result != nil {
		code = response.Result.Code
	}
	good := false
	switch recorder.Code {
	case http.StatusOK:
		good = response.UID != "" && (response.Allowed && code == http.StatusOK || (code == http.StatusForbidden || code == http.StatusBadRequest) && response.Result.Message != "")
	case http.StatusBadRequest:
		good = !response.Allowed && code == http.StatusBadRequest && response.Result.Message != ""
	}
	if !good {
		t.Fatalf("HTTP %d with %+v", recorder.Code, response)
	}
	lines := response.Warnings
	if response.Result != nil {
		lines = append(lines, response.Result.Message)
	}
	for _, line := range lines {
		if strings.ContainsAny(line, "\n\r\x00") {
			t.Fatalf("more than one line: %q", line)
		}
	}
	if recorder.Code != http.StatusOK {
		return nil
	}
	return response
}
