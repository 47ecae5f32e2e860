package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"curfew.dev/curfew/test/builders"
)

// policyCounts are the numbers of LifecyclePolicies that Curfew is asked with, if not told otherwise.
var policyCounts = []int{0, 10, 100}

// reviewMeasurement is what the reviews of one contestant, one after the other, took in one round.
// It is written to .bench/runs-admission.json.
type reviewMeasurement struct {
	Round      int    `json:"round"`
	Contestant string `json:"contestant"`
	// Policies is how many LifecyclePolicies there were, which only Curfew knows of.
	Policies int `json:"policies"`
	Reviews  int `json:"reviews"`
	// P50 and P99 are latencies in microseconds, seen by the caller.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Allocations is how many objects the process allocated for a review.
	Allocations float64 `json:"allocations"`
	Others      float64 `json:"others"`
}

// latencyRound asks everybody the same, with each number of policies. Blocks of requests take
// turns, so that whatever the machine does meanwhile does to all.
func (a *admissionBench) latencyRound(ctx context.Context, n int) ([]reviewMeasurement, error) {
	var out []reviewMeasurement
	for i := range a.counts {
		// Each round begins with another number.
		count := a.counts[(i+n-1)%len(a.counts)]
		if err := a.policies.set(ctx, a.site, count); err != nil {
			return nil, err
		}
		measured, err := a.latencies(ctx, n, count)
		if err != nil {
			return nil, err
		}
		out = append(out, measured...)
	}
	return out, nil
}

// asked is one server that reviews requests.
type asked struct {
	*server
	// name under which it is reported.
	name string
	body []byte
}

// theByPolicy is Curfew, asked about a Job in a namespace that says nothing, so that it is a policy
// that gives the default.
const theByPolicy = "curfew_by_policy"

func (a *admissionBench) latencies(ctx context.Context, n, count int) ([]reviewMeasurement, error) {
	field := []asked{{a.site.noop, answerNoop, a.body}, {a.site.curfew, theCurfew, a.body}, {a.site.typed, answerTyped, a.body}}
	if count > 0 {
		field = append(field, asked{a.site.curfew, theByPolicy, bytes.ReplaceAll(a.body, []byte(reviewNamespace), []byte(policyNamespace))})
	}
	for _, s := range field {
		for range reviewWarmup {
			response, _, err := s.review(ctx, s.body)
			if err != nil {
				return nil, err
			}
			if defaults := bytes.Contains(response.Patch, []byte("ttlSecondsAfterFinished")); defaults != (s.name != answerNoop) {
				return nil, fmt.Errorf("%s with %d policies answers with the patch %q", s.name, count, response.Patch)
			}
		}
	}
	pids := a.pids()
	from, err := clock(pids)
	if err != nil {
		return nil, err
	}
	samples := map[string][]float64{}
	for done := 0; done < a.reviews; done += reviewBlock {
		for i := range field {
			s := field[(i+n+done/reviewBlock)%len(field)]
			for range reviewBlock {
				_, took, err := s.review(ctx, s.body)
				if err != nil {
					return nil, err
				}
				samples[s.name] = append(samples[s.name], float64(took)/float64(time.Microsecond))
			}
		}
	}
	to, err := clock(pids)
	if err != nil {
		return nil, err
	}
	var out []reviewMeasurement
	for _, s := range field {
		allocations, err := s.allocations(ctx, s.body)
		if err != nil {
			return nil, err
		}
		out = append(out, reviewMeasurement{
			Round: n, Contestant: s.name, Policies: count, Reviews: len(samples[s.name]),
			P50: round(percentile(samples[s.name], 0.5)), P99: round(percentile(samples[s.name], 0.99)),
			Allocations: round(allocations), Others: round(others(from, to)),
		})
	}
	return out, nil
}

// pids are the processes of all contestants.
func (a *admissionBench) pids() []int {
	pids := []int{os.Getpid()}
	for _, s := range []*server{a.site.noop, a.site.curfew, a.site.typed} {
		pids = append(pids, s.cmd.Process.Pid)
	}
	for _, component := range a.env.state.Components {
		pids = append(pids, component.PID)
	}
	return pids
}

// allocations is how many objects the process allocates for a review, whatever else it does. To ask
// costs objects too: that is seen by asking twice.
func (s *server) allocations(ctx context.Context, body []byte) (float64, error) {
	var counts [3]float64
	for i := range counts {
		var err error
		if counts[i], err = s.mallocs(ctx); err != nil {
			return 0, err
		}
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

const (
	reviewBlock  = 50
	reviewWarmup = 300
)

// awaitProbe asks Curfew about the Job that the probe of a set of policies selects, until that
// policy is in force, or is no longer.
func (s *site) awaitProbe(ctx context.Context, count int, inForce bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	job := builders.BuildJob(probeNamespace, "probe")
	job.Labels = map[string]string{builders.LabelProbe: fmt.Sprint(count)}
	body, err := makeReview(job)
	if err != nil {
		return err
	}
	for {
		response, _, err := s.curfew.review(ctx, body)
		if err != nil {
			return err
		}
		if bytes.Contains(response.Patch, []byte("ttlSecondsAfterFinished")) == inForce {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d policies: Curfew does not judge by what the cluster has: %w", count, err)
		}
	}
}

// makeReview sends one review, which is not measured.
func makeReview(object any) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode a Job: %w", err)
	}
	review := map[string]any{"apiVersion": admissionv1.SchemeGroupVersion.String(), "kind": "AdmissionReview", "request": map[string]any{
		"uid": "probe", "operation": "CREATE", "namespace": probeNamespace,
		"kind":   map[string]string{"group": "batch", "version": "v1", "kind": "Job"},
		"object": json.RawMessage(raw),
	}}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("encode a review: %w", err)
	}
	return body, nil
}
