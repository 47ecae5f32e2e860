package expression_test

import (
	"context"
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

func BenchmarkState(b *testing.B) {
	object := map[string]any{
		"metadata": map[string]any{"creationTimestamp": "2026-03-01T08:00:00Z"},
		"status": map[string]any{"startTime": "2026-03-01T08:00:00Z", "conditions": []any{
			map[string]any{"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-03-01T08:00:00Z"},
			map[string]any{"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T08:00:00Z"},
		}},
	}
	for name, profile := range map[string]*policy.Profile{"expressions": builtin(b)["job.batch"].Profile, "go": policy.JobProfile} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if state, err := profile.State(b.Context(), object); err != nil || !state.Finished {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHundredPolicies(b *testing.B) {
	facts, variables := scene()
	for name, spec := range map[string]string{
		"other kind":     `{defaults: {ttl: {value: 1d}}, match: {kinds: [{kind: Pod}]}}`,
		"other selector": `{defaults: {ttl: {value: 1d}}, match: {namespaceSelector: {matchLabels: {env: prod}}}}`,
		"constant":       `{defaults: {ttl: {value: 1d}}}`,
		"condition":      `{defaults: {ttl: {value: 1d}}, match: {matchConditions: [{name: a, expression: "object.spec.parallelism > 9"}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			list := make([]*expression.Policy, 100)
			for i := range list {
				list[i] = compilePolicy(b, spec)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, errs := expression.Matching(context.Background(), list, facts, variables); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}
