package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// captureReview lets the API server itself write the review of a Job that is created, and returns
// its very bytes.
func (s *site) captureReview(ctx context.Context, client kubernetes.Interface, job *batchv1.Job) ([]byte, error) {
	const name = "bench-capture"
	caught := make(chan []byte, 1)
	// On TLS, as the API server sends to nothing else, with the certificate of the other contestants.
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		select {
		case caught <- body:
		default:
		}
		allow(w, r)
	}))
	config, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	server.TLS = config
	server.StartTLS()
	defer server.Close()
	configuration := webhookConfiguration(name, server.URL, s.authority, job.Namespace)
	api := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := api.Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("configure a webhook that keeps what it gets: %w", err)
	}
	defer func() { _ = api.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}) }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if _, err := client.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return nil, fmt.Errorf("create a Job for its review: %w", err)
		}
		select {
		case body := <-caught:
			return body, nil
		default:
		}
		// The API server has not noticed the webhook yet.
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("no review came: %w", err)
		}
	}
}

// webhookConfiguration has a webhook called for each new Job of one namespace.
func webhookConfiguration(name, url string, authority []byte, namespace string) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    name + ".bench.curfew.dev",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To(url + mutatePath), CABundle: authority},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			TimeoutSeconds:          ptr.To[int32](5),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		}},
	}
}

// review asks a webhook, as an API server does, and returns what it said.
func (s *server) review(ctx context.Context, body []byte) (*admissionv1.AdmissionResponse, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.address+mutatePath+"?timeout=5s", bytes.NewReader(body))
	if err != nil {
		return nil, 0, fmt.Errorf("ask %s: %w", s.name, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	began := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("ask %s: %w", s.name, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	took := time.Since(began)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("ask %s: it answers %s %s, %w", s.name, resp.Status, answer, err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, 0, fmt.Errorf("read what %s answered: %w", s.name, err)
	}
	if review.Response == nil || !review.Response.Allowed {
		return nil, 0, fmt.Errorf("%s does not allow the Job: %s", s.name, answer)
	}
	return review.Response, took, nil
}
