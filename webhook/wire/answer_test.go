package wire

import (
	"encoding/json"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAppendAnswer: the written answer reads as the given response.
func TestAppendAnswer(t *testing.T) {
	patchType := admissionv1.PatchTypeJSONPatch
	for name, response := range map[string]*admissionv1.AdmissionResponse{
		"allowed": {UID: "u", Allowed: true},
		"patched": {UID: "u-\"\n", Allowed: true, Patch: []byte(`[{"op":"add"}]`), PatchType: &patchType, AuditAnnotations: map[string]string{"source": "namespace/ci", "decision": "défaulted"}},
		"warned":  {UID: "u", Allowed: true, Warnings: []string{"curfew: a", `"b"`}},
		"denied": {UID: "u", Result: &metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: "Forbidden", Message: "<no>",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "x", Field: "spec"}}}}},
		"empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := AppendAnswer(nil, response)
			if err != nil {
				t.Fatal(err)
			}
			var have admissionv1.AdmissionReview
			if err := json.Unmarshal(text, &have); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			want := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"}, Response: response}
			if !reflect.DeepEqual(have, want) {
				t.Errorf("%s\ngot  %+v\nwant %+v", text, have.Response, response)
			}
		})
	}
}
