package webhook

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// FuzzReview sends any object by any path: nothing panics, every answer is one of the five, warnings fit their header, and a
// patch applies and says all there is to say.
func FuzzReview(f *testing.F) {
	kinds := []metav1.GroupVersionKind{
		{Group: "batch", Version: "v1", Kind: "Job"}, {Version: "v1", Kind: "Pod"}, {Group: "batch", Version: "v1", Kind: "CronJob"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "Namespace"}, {Group: "example.org", Version: "v1", Kind: "Thing"},
	}
	spaces := []string{"", "plain", "ci", "outcome", "pods", "bounded", "dead", "soft", "dry"}
	paths := []string{PathMutate, PathValidate, PathMutateNamespace, PathValidateNamespace}
	for i, object := range []string{
		job, pod, cronJob, defaulted, inTemplate, own("5"), annotated("soon"), stamped("1d", since(hash1d)), namespace("", "curfew.dev/max-ttl: x"),
		"{metadata: {ownerReferences: [{controller: true, kind: CronJob, apiVersion: batch/v1}]}, status: {conditions: [{type: Complete, status: 'True'}]}}",
		"{metadata: {creationTimestamp: x, deletionTimestamp: 7, finalizers: {}, ownerReferences: [1]}, spec: {suspend: 1, template: []}, status: {phase: Failed, containerStatuses: [1]}}",
	} {
		f.Add(uint8(i), uint8(i), uint8(i), i%2 == 0, toJSON(f, object), toJSON(f, job))
	}
	w := newWorld(f)
	w.namespaces.live = w.namespaces.cached
	f.Fuzz(func(t *testing.T, path, kind, space uint8, update bool, object, old []byte) {
		at := paths[int(path)%len(paths)]
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "u", Kind: kinds[int(kind)%len(kinds)], Namespace: spaces[int(space)%len(spaces)], Operation: admissionv1.Create,
			Object: runtime.RawExtension{Raw: object},
		}}
		if update {
			req.Operation, req.OldObject.Raw = admissionv1.Update, old
		}
		handler := &handler{webhooks: w.webhooks, name: at[1:], review: w.webhooks.endpoints()[at]}
		answer := handler.answer(t.Context(), &req, t0)
		if answer.status == http.StatusInternalServerError {
			t.Fatalf("error: %v", answer.err)
		}
		checkAnswer(t, &req, answer)
		if len(answer.response.Patch) == 0 {
			return
		}
		patch, err := jsonpatch.DecodePatch(answer.response.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if req.Object.Raw, err = patch.Apply(object); err != nil {
			t.Fatalf("patch %s: %v", answer.response.Patch, err)
		}
		if again := handler.answer(t.Context(), &req, t0); len(again.response.Patch) > 0 {
			t.Fatalf("not idempotent: %s, then %s", answer.response.Patch, again.response.Patch)
		}
	})
}

func checkAnswer(t *testing.T, req *admission.Request, answer answer) {
	t.Helper()
	response := answer.response
	if err := response.Complete(*req); err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(response.AdmissionResponse); err != nil {
		t.Fatal(err)
	}
	wants := map[outcome]struct {
		allowed bool
		code    int32
	}{outcomeAllowed: {true, 200}, outcomeDefaulted: {true, 200}, outcomeDenied: {false, 403}, outcomeInvalid: {false, 400}}
	want, ok := wants[answer.outcome]
	if !ok || response.Allowed != want.allowed || response.Result.Code != want.code || !want.allowed && response.Result.Message == "" {
		t.Fatalf("%s: %+v", answer.outcome, response.AdmissionResponse)
	}
	for _, line := range append(response.Warnings, response.Result.Message) {
		if strings.ContainsAny(line, "\n\r\x00") {
			t.Fatalf("more than one line: %q", line)
		}
	}
}
