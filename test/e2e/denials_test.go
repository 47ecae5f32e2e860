package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// S1: a DELETE webhook denies, in whatever way, and the TTL is raised while the DELETE that it
// allows is in it. No denial is a reason to send a DELETE without the resourceVersion.
func TestDenialKeepsThePrecondition(t *testing.T) {
	parallel(t)
	for name, result := range map[string]*metav1.Status{
		"without a code": nil,
		"409":            {Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "busy"},
		"404":            {Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: `jobs.batch "raised" not found`, Details: &metav1.StatusDetails{Name: "raised", Kind: "jobs", Group: "batch"}},
		"429":            {Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			var reviews atomic.Int64
			s.reviewDeletes("raised", func() admissionv1.AdmissionResponse {
				if reviews.Add(1) <= 2 {
					return admissionv1.AdmissionResponse{Result: result.DeepCopy()}
				}
				s.okInHook(s.tryPatchJob("raised", `{"metadata":{"annotations":{"`+wellknown.AnnotationTTL+`":"1h"}}}`))
				return admissionv1.AdmissionResponse{Allowed: true}
			})
			raised := s.finishJob("raised", now(), ttl(second))
			s.poll("the webhook to allow the DELETE", func(context.Context) (bool, error) { return reviews.Load() > 2, nil })
			s.outlast(now())
			s.stillThere(raised)
			sent := suite.proxy.Deletes(s.name, "raised")
			if len(sent) < 3 {
				t.Errorf("%d DELETEs, want 3", len(sent))
			}
			for i, each := range sent {
				if p := each.Options.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
					t.Errorf("DELETE %d had preconditions %+v", i+1, p)
				}
			}
		})
	}
}

// reviewDeletes has the API server ask a webhook of the test about the DELETEs of a Job in the
// namespace.
func (s *space) reviewDeletes(name string, answer func() admissionv1.AdmissionResponse) {
	s.Helper()
	s.reviewDeletesIn([]string{s.name}, func(_ context.Context, request *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
		if request.Name == name {
			return answer()
		}
		return admissionv1.AdmissionResponse{Allowed: true}
	})
}

// reviewDeletesIn does so for all Jobs of some namespaces and the space's own. It has as long to
// answer as the API server allows.
func (s *space) reviewDeletesIn(namespaces []string, answer func(context.Context, *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse) {
	s.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			s.Errorf("reading a review: %v", err)
			return
		}
		var response admissionv1.AdmissionResponse
		if review.Request.Name != "probe" {
			response = answer(r.Context(), review.Request)
		}
		response.UID = review.Request.UID
		review.Request, review.Response = nil, &response
		if err := json.NewEncoder(w).Encode(review); err != nil {
			s.Errorf("answering a review: %v", err)
		}
	}))
	s.Cleanup(server.Close)
	hooks := suite.cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(s.ctx, &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "denies.example.com",
			ClientConfig: registrationv1.WebhookClientConfig{URL: new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(registrationv1.SideEffectClassNone),
			FailurePolicy:           new(registrationv1.Fail),
			TimeoutSeconds:          new(int32(30)),
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: namespaces}}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Delete},
				Rule:       registrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
			}},
		}},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.Cleanup(func() {
		if err := hooks.Delete(context.Background(), s.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("delete the webhook: %v", err)
		}
	})
	s.newJob(job("probe", byTest))
	s.poll("DELETEs to be reviewed", func(ctx context.Context) (bool, error) {
		err := suite.cluster.Client.BatchV1().Jobs(s.name).Delete(ctx, "probe", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, nil
	})
}
