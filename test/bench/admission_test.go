package main

import (
	"reflect"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/test/builders"
)

func TestSummarizeAdmission(t *testing.T) {
	reviews := []reviewMeasurement{
		{Contestant: answerNoop, Policies: 10, P50: 100, P99: 200, Allocations: 50},
		{Contestant: theCurfew, Policies: 10, P50: 120, P99: 300, Allocations: 250},
		{Contestant: theByPolicy, Policies: 10, P50: 125, P99: 310, Allocations: 260},
		{Contestant: answerTyped, Policies: 10, P50: 480, P99: 600, Allocations: 2500},
		{Contestant: answerNoop, Policies: 100, P50: 200, P99: 400, Allocations: 50},
		{Contestant: theCurfew, Policies: 100, P50: 180, P99: 600, Allocations: 500},
		{Contestant: theByPolicy, Policies: 100, P50: 250, P99: 620, Allocations: 800},
	}
	creates := []createMeasurement{
		{Contestant: createNone, P50: 1000, P99: 2000}, {Contestant: createMAP, P50: 1500, P99: 2500}, {Contestant: createPatch, P50: 1600, P99: 2500},
		{Contestant: theCurfew, P50: 1900, P99: 3000}, {Contestant: answerNoop, P50: 1750, P99: 2600}, {Contestant: answerTyped, P50: 2000, P99: 4000},
	}
	got := map[string]float64{}
	for _, r := range summarizeAdmission(reviews, creates) {
		got[r.Name] = r.Ratio
	}
	want := map[string]float64{
		"admission.p50.10.vs_noop": 1.2, "admission.p50.100.vs_noop": 0.9, "admission.p50.10.vs_typed": 0.25, "admission.p50.100.vs_10": 1.5,
		"admission.p99.10.vs_noop": 1.5, "admission.p99.100.vs_noop": 1.5, "admission.p99.10.vs_typed": 0.5, "admission.p99.100.vs_10": 2,
		"admission.p50.10.by_policy.vs_noop": 1.25, "admission.p50.100.by_policy.vs_noop": 1.25, "admission.p50.100.by_policy.vs_10": 2,
		"admission.p99.10.by_policy.vs_noop": 1.55, "admission.p99.100.by_policy.vs_noop": 1.55, "admission.p99.100.by_policy.vs_10": 2,
		"admission.allocs.10": 5, "admission.allocs.10.vs_typed": 0.1, "admission.allocs.100": 10,
		"admission.create_added_p50.vs_map": 1.8, "admission.create_added_p50.noop.vs_map": 1.5, "admission.create_added_p50.typed.vs_map": 2,
		"admission.create_added_p50.map-patch.vs_map": 1.2,
		"admission.create_p50.curfew.vs_none":         1.9, "admission.create_p99.curfew.vs_none": 1.5, "admission.create_p50.map.vs_none": 1.5, "admission.create_p99.map.vs_none": 1.25,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Each contestant that sets defaults must have done so, or doing nothing would win.
func TestDefaulted(t *testing.T) {
	for contestant, defaults := range map[string]bool{createNone: false, answerNoop: false, createMAP: true, createPatch: true, theCurfew: true, answerTyped: true} {
		for _, ttl := range []*int32{nil, ptr.To[int32](defaultedTTL), ptr.To[int32](5)} {
			has := ttl != nil && *ttl == defaultedTTL
			if got := defaulted(contestant, &batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ttl}}); got != (has == defaults) {
				t.Errorf("%s, TTL %v: %v", contestant, ptr.Deref(ttl, -1), got)
			}
		}
	}
}

// The policies compile, half of them select namespaces, and some have conditions in CEL.
func TestPoliciesAreRealistic(t *testing.T) {
	compiler := expression.NewCompiler(256)
	namespaces, conditions, priorities := 0, 0, map[int32]bool{}
	for _, p := range builders.LifecyclePolicies(100) {
		if _, errs := compiler.Policy(p); len(errs) > 0 {
			t.Errorf("%s: %v", p.Name, errs)
		}
		if p.Spec.Match.NamespaceSelector != nil {
			namespaces++
		}
		if len(p.Spec.Match.MatchConditions) > 0 {
			conditions++
		}
		priorities[p.Spec.Priority] = true
	}
	if namespaces != 50 || conditions != 30 || len(priorities) < 50 {
		t.Errorf("%d select namespaces, %d have conditions, there are %d priorities", namespaces, conditions, len(priorities))
	}
}
