package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// reviewMeasurement is what the reviews of one contestant, one after the other, took in one round.
// It is written to .bench/runs-admission.json.
type reviewMeasurement struct {
	Round      int    `json:"round"`
	Contestant string `json:"contestant"`
	// P50 and P99 are latencies in microseconds, seen by the caller.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Allocations is how many objects the process allocated for a review.
	Allocations float64 `json:"allocations"`
	Others      float64 `json:"others"`
}

const (
	reviewBlock  = 50
	reviewWarmup = 300
)

// runAdmission has Curfew, and beside it two other webhooks, review a new Job again and again, over
// one connection.
func runAdmission(ctx context.Context, e *environment) (results []result, err error) {
	s := &site{env: e}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	for _, other := range []struct {
		to   **server
		kind string
	}{{&s.noop, answerNoop}, {&s.typed, answerTyped}} {
		if *other.to, err = s.startAnswer(ctx, other.kind); err != nil {
			return nil, err
		}
	}
	// As the API server has it in a namespace without any setting of Curfew.
	job, err := s.client.BatchV1().Jobs(createNamespace(createNone)).Create(ctx, buildJob("", "build-000000"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, fmt.Errorf("create a Job for its review: %w", err)
	}
	job.Namespace = createNamespace(theCurfew)
	body, err := reviewOf(job)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(e.out, "the review of a Job has %d bytes\n", len(body))
	var all []reviewMeasurement
	for n := 1; n <= e.rounds; n++ {
		measured, err := s.reviews(ctx, n, body)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
		for _, m := range measured {
			fmt.Fprintf(e.out, "round %d of %d  %-8s p50 %6.0f µs   p99 %6.0f µs   %5.0f allocations   others %.0f%%\n",
				n, e.rounds, m.Contestant, m.P50, m.P99, m.Allocations, m.Others*100)
		}
		all = append(all, measured...)
		if err := e.writeRuns("admission", all); err != nil {
			return nil, err
		}
	}
	return summarizeAdmission(all), nil
}

// reviews asks everybody the same. Blocks of requests take turns, so that whatever the machine does
// meanwhile does to all.
func (s *site) reviews(ctx context.Context, n int, body []byte) ([]reviewMeasurement, error) {
	field := []*server{s.noop, s.curfew, s.typed}
	pids := s.env.processes()
	for _, who := range field {
		pids[who.name] = who.PID
		for range reviewWarmup {
			response, _, err := who.review(ctx, body)
			if err != nil {
				return nil, err
			}
			if defaults := bytes.Contains(response.Patch, []byte("ttlSecondsAfterFinished")); defaults != (who.name != answerNoop) {
				return nil, fmt.Errorf("%s answers with the patch %q", who.name, response.Patch)
			}
		}
	}
	since, err := startMeter(pids)
	if err != nil {
		return nil, err
	}
	samples := map[string][]float64{}
	for done := 0; done < s.env.objects; done += reviewBlock {
		for i := range field {
			who := field[(i+n+done/reviewBlock)%len(field)]
			for range reviewBlock {
				_, took, err := who.review(ctx, body)
				if err != nil {
					return nil, err
				}
				samples[who.name] = append(samples[who.name], float64(took)/float64(time.Microsecond))
			}
		}
	}
	_, others, err := since.read(1)
	if err != nil {
		return nil, err
	}
	var out []reviewMeasurement
	for _, who := range field {
		allocations, err := who.allocations(ctx, body)
		if err != nil {
			return nil, err
		}
		out = append(out, reviewMeasurement{Round: n, Contestant: who.name, Allocations: round(allocations), Others: others,
			P50: round(percentile(samples[who.name], 0.5)), P99: round(percentile(samples[who.name], 0.99))})
	}
	return out, nil
}

// allocations is how many objects the process allocates for a review, whatever else it does. To ask
// costs objects too: that is seen by asking twice.
func (s *server) allocations(ctx context.Context, body []byte) (float64, error) {
	var counts [3]float64
	for i := range counts {
		samples, err := scrape(ctx, s.client, s.metrics)
		if err != nil {
			return 0, err
		}
		counts[i] = samples["go_memstats_mallocs_total"]
		if i != 1 {
			continue
		}
		for range reviewWarmup {
			if _, _, err := s.review(ctx, body); err != nil {
				return 0, err
			}
		}
	}
	return (counts[2] - counts[1] - (counts[1] - counts[0])) / reviewWarmup, nil
}

// review asks a webhook, as an API server does, and returns its answer.
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
	if err != nil {
		return nil, 0, fmt.Errorf("ask %s: %w", s.name, err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil || review.Response == nil || !review.Response.Allowed {
		return nil, 0, fmt.Errorf("%s does not allow the Job: it answers %s %s", s.name, resp.Status, answer)
	}
	return review.Response, took, nil
}

// reviewOf is the review of a new Job.
func reviewOf(job *batchv1.Job) ([]byte, error) {
	job.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	raw, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("encode a Job: %w", err)
	}
	kind := metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	resource := metav1.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "33a44b86-96b5-4b2b-9a44-1d9b1e0e0a0e", Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource,
			Name: job.Name, Namespace: job.Namespace, Operation: admissionv1.Create, DryRun: new(bool),
			UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:ci:builder", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"}},
			Object:   runtime.RawExtension{Raw: raw}, Options: runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)},
		},
	})
}

// summarizeAdmission compares values of the same rounds.
func summarizeAdmission(all []reviewMeasurement) []result {
	p50, p99, allocations := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, m := range all {
		p50[m.Contestant], p99[m.Contestant] = append(p50[m.Contestant], m.P50), append(p99[m.Contestant], m.P99)
		allocations[m.Contestant] = append(allocations[m.Contestant], m.Allocations)
	}
	noop := contestant{name: answerNoop, about: `a webhook that only says "allowed"`}
	typed := contestant{name: answerTyped, about: "controller-runtime's typed defaulter"}
	return slices.Concat(
		against("admission.p50.10.vs_noop", "µs", p50, theCurfew, noop),
		against("admission.p50.10.vs_typed", "µs", p50, theCurfew, typed),
		against("admission.p99.10.vs_noop", "µs", p99, theCurfew, noop),
		against("admission.allocs.10", "allocations", allocations, theCurfew, noop),
		against("admission.allocs.10.vs_typed", "allocations", allocations, theCurfew, typed))
}
