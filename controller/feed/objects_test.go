package feed

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
)

// S6: of several native TTLs, the one that the kind's own controller uses takes effect. For Argo, a
// Workflow in phase Error did not fail.
func TestNativeTTLsByOutcome(t *testing.T) {
	all, err := profiles.All()
	must(t, err)
	var kind Kind
	for _, object := range all {
		if object.Spec.Kind.Kind == "Workflow" {
			profile, errs := expression.NewCompiler(10).Profile(object)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			kind = Objects(unasked{}, profile)
		}
	}
	for name, test := range map[string]struct {
		phase string
		ttls  map[string]any
		keep  bool
		after time.Duration
	}{
		"succeeded":                       {phase: "Succeeded", ttls: map[string]any{"secondsAfterSuccess": int64(60), "secondsAfterCompletion": int64(3600)}, after: time.Minute},
		"succeeded, nothing of that":      {phase: "Succeeded", ttls: map[string]any{"secondsAfterFailure": int64(60)}, keep: true},
		"failed":                          {phase: "Failed", ttls: map[string]any{"secondsAfterFailure": int64(60), "secondsAfterCompletion": int64(3600)}, after: time.Minute},
		"failed, completion says it":      {phase: "Failed", ttls: map[string]any{"secondsAfterSuccess": int64(60), "secondsAfterCompletion": int64(3600)}, after: time.Hour},
		"error, completion says it":       {phase: "Error", ttls: map[string]any{"secondsAfterFailure": int64(60), "secondsAfterCompletion": int64(3600)}, after: time.Hour},
		"error, and nothing speaks of it": {phase: "Error", ttls: map[string]any{"secondsAfterFailure": int64(60)}, keep: true},
	} {
		t.Run(name, func(t *testing.T) {
			ended := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
			facts, err := kind.Facts(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "a", "namespace": "ci", "creationTimestamp": "2026-03-01T08:00:00Z"},
				"spec":     map[string]any{"ttlStrategy": test.ttls},
				"status":   map[string]any{"phase": test.phase, "startedAt": "2026-03-01T08:00:05Z", "finishedAt": ended.Format(time.RFC3339)},
			}})
			must(t, err)
			effective := resolution.Resolve(facts, &resolution.Scope{})
			verdict := judging.Judge(facts, &effective, ended)
			if keep := verdict.Action == policy.Keep; keep != test.keep || !keep && !verdict.Expiry.Equal(ended.Add(test.after)) {
				t.Errorf("%s at %s (%s), want it kept: %t, else %s after its end", verdict.Action, verdict.Expiry, verdict.Reason, test.keep, test.after)
			}
		})
	}
}

// An expression of a profile that its caller gives up on says nothing about the object, which would
// be kept, and reported, otherwise.
func TestFactsEndWithTheirCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	profile := &policy.Profile{State: func(ctx context.Context, _ map[string]any) (policy.State, error) {
		cancel() // in the middle of it
		return policy.State{}, ctx.Err()
	}}
	if facts, err := factsOf(profile)(ctx, &unstructured.Unstructured{Object: map[string]any{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("facts %+v, error %v; want context.Canceled", facts, err)
	}
}
