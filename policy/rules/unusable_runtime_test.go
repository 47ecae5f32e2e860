package rules

import (
	"errors"
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

func TestUnusableRuntime(t *testing.T) {
	read := func(pairs ...string) *resolution.RuntimePolicy {
		facts := policy.FactsOfObject(&policy.Profile{AnnotatedDeadline: true}, object("TrainingRuntime", nil, pairs...))
		return &resolution.RuntimePolicy{Name: "torch", Path: "spec.runtimeRef.name", TTL: facts.TTLs(), Deadline: facts.Deadline()}
	}
	for name, test := range map[string]struct {
		runtime *resolution.RuntimePolicy
		want    []string
	}{
		"readable": {runtime: read("ttl-after-finished", "1d", "active-deadline", "1h")},
		"missing": {runtime: &resolution.RuntimePolicy{Name: "torch", Path: "spec.runtimeRef.name", Missing: true},
			want: []string{`warning spec.runtimeRef.name: runtime "torch" does not exist: this TrainJob is kept until it exists and sets a TTL`}},
		"cannot be told": {runtime: &resolution.RuntimePolicy{Path: "spec.runtimeRef.name", Missing: true, Err: errors.New("spec.runtimeRef.name: 7 is not a name")},
			want: []string{`warning spec.runtimeRef.name: 7 is not a name: this TrainJob stays`}},
		"unreadable": {runtime: read("ttl-after-failed", "soon", "active-deadline", "0"), want: []string{
			`warning spec.runtimeRef.name: runtime "torch" has "soon" in ` + at("ttl-after-failed") + `, which cannot be read: fix it; until then, this TrainJob stays`}},
	} {
		t.Run(name, func(t *testing.T) {
			request := Request{Scope: &resolution.Scope{Runtime: test.runtime}}
			equal(t, judge(unusableRuntime, trainJob, request, nil, object("TrainJob", nil)), test.want)
			// An unrelated update is not bothered, and what another cluster's manager answers for
			// has no runtime here.
			request.Scope = &resolution.Scope{Runtime: test.runtime}
			equal(t, judge(unusableRuntime, trainJob, request, object("TrainJob", nil), object("TrainJob", nil, "x", "y")), nil)
			copied := object("TrainJob", nil)
			copied["metadata"].(map[string]any)["labels"] = map[string]any{wellknown.LabelMultiKueueOrigin: "hub"}
			equal(t, judge(unusableRuntime, trainJob, request, nil, copied), nil)
		})
	}
}
