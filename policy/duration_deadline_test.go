package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

// pipelineRun is a kind whose deadline is a Go duration, and which may be given a default.
var pipelineRun = &policy.Profile{
	Name: "pipelinerun", Deadline: policy.MustFieldPath("spec.timeouts.pipeline"), DurationDeadline: true, DefaultDeadline: true,
	State: func(map[string]any) (policy.State, error) { return policy.State{}, nil },
}

func pipelineRunWith(timeout any) map[string]any {
	object := map[string]any{"metadata": map[string]any{"name": "a", "namespace": "ci"}}
	if timeout != nil {
		object["spec"] = map[string]any{"timeouts": map[string]any{"pipeline": timeout}}
	}
	return object
}

func TestDurationDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		timeout   any
		namespace []string
		want, err string
	}{
		"Go's form":             {timeout: "1h0m0s", want: "1h object"},
		"short form":            {timeout: "90m", want: "1h30m object"},
		"part of second":        {timeout: "1500ms", want: "2s object"},
		"a nanosecond":          {timeout: "1ns", want: "1s object"},
		"very long":             {timeout: "2000000h", want: "24855d3h14m7s object"},
		"none":                  {timeout: "0", want: "never object"},
		"none, spelt":           {timeout: "0s", want: "never object"},
		"none beside a default": {timeout: "0s", namespace: []string{"default-deadline", "1h"}, want: "never object"},
		"none under a maximum": {timeout: "0s", namespace: []string{"max-deadline", "2h"}, want: "unusable object",
			err: `no deadline is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`},
		"above":    {timeout: "3h", namespace: []string{"max-deadline", "2h"}, want: "unusable object", err: `3h is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`},
		"below":    {timeout: "1ms", namespace: []string{"min-deadline", "1m"}, want: "unusable object", err: `1s is below curfew.dev/min-deadline 1m of namespace "ci": use 1m or more`},
		"negative": {timeout: "-1h", want: "unusable object", err: `"-1h" is negative: a deadline is 1s or more, or 0 for none`},
		"days":     {timeout: "1d", want: "unusable object", err: `"1d" is not a duration: use units h, m, s (1h30m), or 0 for none`},
		"a number": {timeout: int64(3600), want: "unusable object", err: `3600 is not a duration: use units h, m, s (1h30m), or 0 for none`},
		"default":  {namespace: []string{"default-deadline", "1d"}, want: "1d namespace/ci"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfObject(pipelineRun, pipelineRunWith(test.timeout))
			got := policy.Resolve(facts, &policy.Scope{Creating: true, Namespace: namespaceOf(test.namespace...)}).Deadline
			if text := valueText(got); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			if text := errText(got.Err); text != test.err {
				t.Errorf("error %q, want %q", text, test.err)
			}
		})
	}
}

// A default is written in the field's own form, announced as it stands there, and taken for one when admission is asked again.
func TestDurationDeadlineIsFilledIn(t *testing.T) {
	scope := &policy.Scope{Creating: true, Namespace: namespaceOf("default-deadline", "1d12h")}
	assignments, effective := policy.FillIn(policy.FactsOfObject(pipelineRun, pipelineRunWith(nil)), scope, noon)
	if len(assignments) != 2 || assignments[0].Path.String() != "spec.timeouts.pipeline" || assignments[0].Value != "36h0m0s" {
		t.Fatalf("filled in %v", assignments)
	}
	filled := pipelineRunWith("36h0m0s")
	filled["metadata"].(map[string]any)["annotations"] = map[string]any{policy.AnnotationDeadlineSource: "namespace/ci"}
	facts := policy.FactsOfObject(pipelineRun, filled)
	if told := policy.Defaulted(facts, &effective, scope); len(told) != 1 || told[0].String() != `timeouts.pipeline defaulted to 36h0m0s from namespace "ci"` {
		t.Errorf("announced %v", told)
	}
	if again, effective := policy.FillIn(facts, scope, noon); len(again) != 2 || effective.Deadline.Source.String() != "namespace/ci" {
		t.Errorf("the second time: %v, %+v", again, effective.Deadline)
	}
	// Another value beside a forged stamp is its author's.
	own := pipelineRunWith("35h0m0s")
	own["metadata"].(map[string]any)["annotations"] = map[string]any{policy.AnnotationDeadlineSource: "namespace/ci"}
	if _, effective := policy.FillIn(policy.FactsOfObject(pipelineRun, own), scope, noon); effective.Deadline.Source.String() != "object" {
		t.Errorf("a forged stamp: %+v", effective.Deadline)
	}
	scope.Namespace = namespaceOf("default-deadline", "1h", "mode", "dry-run")
	dry := policy.FactsOfObject(pipelineRun, pipelineRunWith(nil))
	effective = policy.Resolve(dry, scope)
	if told := policy.Defaulted(dry, &effective, scope); len(told) != 1 || told[0].String() != `timeouts.pipeline would be defaulted to 1h0m0s from namespace "ci" (dry-run)` {
		t.Errorf("in dry-run %v", told)
	}
}

// A deadline that was filled in is not judged again by later bounds, as a TTL is not: it is neither lost for them nor shortened. One below a
// minimum waits for that, because whoever got past admission may have forged the stamp; where that cannot be read, there is none (S6).
func TestStampedDeadlineAndBounds(t *testing.T) {
	for name, test := range map[string]struct {
		stamp, bound, text, want string
	}{
		"above":               {"namespace/ci", "max-deadline", "1h", "2h namespace/ci"},
		"above, of a policy":  {"policy/a", "max-deadline", "1h", "2h policy/a"},
		"below":               {"namespace/ci", "min-deadline", "3h", "3h namespace/ci"},
		"within":              {"namespace/ci", "min-deadline", "1h", "2h namespace/ci"},
		"minimum unreadable":  {"namespace/ci", "min-deadline", "?", "unusable namespace/ci"},
		"its author's":        {"", "max-deadline", "1h", "unusable object"},
		"of another":          {"namespace/other", "max-deadline", "1h", "unusable object"},
		"garbage":             {"?", "min-deadline", "3h", "unusable object"},
		"its author's, below": {"", "min-deadline", "3h", "unusable object"},
	} {
		t.Run(name, func(t *testing.T) {
			object := pipelineRunWith("2h0m0s")
			if test.stamp != "" {
				object["metadata"].(map[string]any)["annotations"] = map[string]any{policy.AnnotationDeadlineSource: test.stamp}
			}
			facts := policy.FactsOfObject(pipelineRun, object)
			scope := &policy.Scope{Namespace: namespaceOf("default-deadline", "9h", test.bound, test.text)}
			if text := valueText(policy.Resolve(facts, scope).Deadline); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			// At its creation the stamp is its author's, and gives no rights.
			scope.Creating = true
			if text, inside := valueText(policy.Resolve(facts, scope).Deadline), name == "within"; text != "2h object" && inside || text != "unusable object" && !inside {
				t.Errorf("at its creation: %q", text)
			}
		})
	}
}

// No default deadline for a Pod, though a KindProfile of somebody's should allow it; the Pods of a Job, which NoDefault lets through for
// default-pod-ttl, least of all (S5).
func TestNoDefaultDeadlineForPods(t *testing.T) {
	profile := *policy.PodProfile
	profile.DefaultDeadline = true
	scope := &policy.Scope{Namespace: namespaceOf("default-deadline", "1h"), Creating: true}
	for name, pod := range map[string]*builders.PodWrapper{
		"bare": builders.MakePod("ci", "a"), "of a Job": builders.MakePod("ci", "a").ControlledBy("batch/v1", "Job", "build"),
	} {
		if assignments, effective := policy.FillIn(policy.FactsOfObject(&profile, pod.Map()), scope, noon); len(assignments) > 0 || effective.Deadline.Set {
			t.Errorf("%s: filled in %v of %+v", name, assignments, effective.Deadline)
		}
	}
}

func TestRuntimeDeadline(t *testing.T) {
	said := func(text string) *policy.RuntimePolicy {
		facts := policy.FactsOfObject(&policy.Profile{AnnotatedDeadline: true}, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{policy.AnnotationActiveDeadline: text}}})
		return &policy.RuntimePolicy{Name: "torch", Deadline: facts.Deadline()}
	}
	for name, test := range map[string]struct {
		runtime   *policy.RuntimePolicy
		own       any
		managed   bool
		namespace []string
		want      string
	}{
		"before a longer one":        {runtime: said("1h"), own: "9h", want: "1h runtime/torch"},
		"before a shorter one":       {runtime: said("9h"), own: "1h", want: "9h runtime/torch"},
		"before none":                {runtime: said("1h"), own: "0s", want: "1h runtime/torch"},
		"before a default":           {runtime: said("1h"), namespace: []string{"default-deadline", "9h"}, want: "1h runtime/torch"},
		"above all bounds":           {runtime: said("9h"), namespace: []string{"max-deadline", "1h"}, want: "9h runtime/torch"},
		"unreadable":                 {runtime: said("soon"), own: "1h", want: "unusable runtime/torch"},
		"mute":                       {runtime: &policy.RuntimePolicy{Name: "torch"}, own: "1h", want: "1h object"},
		"mute, with a default":       {runtime: &policy.RuntimePolicy{Name: "torch"}, namespace: []string{"default-deadline", "9h"}, want: "9h namespace/ci"},
		"gone, own":                  {runtime: &policy.RuntimePolicy{Name: "torch", Missing: true}, own: "1h", want: "unusable runtime/torch"},
		"gone, another's":            {runtime: &policy.RuntimePolicy{Name: "torch", Missing: true}, own: "1h", managed: true, want: "1h object"},
		"gone, with a default":       {runtime: &policy.RuntimePolicy{Name: "torch", Missing: true}, namespace: []string{"default-deadline", "9h"}},
		"of another cluster's copy":  {runtime: said("1h"), own: "9h", managed: true, want: "9h object"},
		"another's, without its own": {runtime: said("1h"), managed: true},
	} {
		t.Run(name, func(t *testing.T) {
			object := pipelineRunWith(test.own)
			if test.managed {
				object["metadata"].(map[string]any)["labels"] = map[string]any{policy.LabelMultiKueueOrigin: "hub"}
			}
			scope := &policy.Scope{Creating: true, Runtime: test.runtime, Namespace: namespaceOf(test.namespace...)}
			assignments, effective := policy.FillIn(policy.FactsOfObject(pipelineRun, object), scope, noon)
			if text := valueText(effective.Deadline); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			// A runtime is read live whenever it matters, so that its word is never frozen in the object.
			if effective.Deadline.Source.Level == policy.LevelRuntime && (len(assignments) > 0 || !effective.Deadline.Live) {
				t.Errorf("filled in %v of %+v", assignments, effective.Deadline)
			}
		})
	}
}

// A kind's own field for what failed does not speak of what ended in an error, where its controller tells the two apart: the
// object is then kept for as long as the plain field says, or for good (S6).
func TestNativeFieldByOutcomeOfAnError(t *testing.T) {
	workflow := &policy.Profile{
		Name: "workflow", TTL: policy.MustFieldPath("spec.ttl"), TTLFailed: policy.MustFieldPath("spec.ttlFailed"),
		State: func(object map[string]any) (policy.State, error) {
			return policy.State{Finished: true, Outcome: policy.Failed, Errored: object["phase"] == "Error", FinishTime: noon}, nil
		},
	}
	for name, test := range map[string]struct {
		phase string
		spec  map[string]any
		note  string
		want  string
	}{
		"failed":                 {"Failed", map[string]any{"ttl": int64(7200), "ttlFailed": int64(60)}, "", "1m object"},
		"error":                  {"Error", map[string]any{"ttl": int64(7200), "ttlFailed": int64(60)}, "", "2h object"},
		"error, no plain field":  {"Error", map[string]any{"ttlFailed": int64(60)}, "", ""},
		"error, annotation":      {"Error", map[string]any{"ttlFailed": int64(60)}, "3h", "3h object"},
		"error, without a field": {"Error", map[string]any{}, "", "1h namespace/ci"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]any{}
			if test.note != "" {
				annotations[policy.AnnotationTTLFailed] = test.note
			}
			object := map[string]any{"phase": test.phase, "spec": test.spec, "metadata": map[string]any{
				"namespace": "ci", "creationTimestamp": noon.Add(-time.Hour).Format(time.RFC3339), "annotations": annotations}}
			got := policy.Resolve(policy.FactsOfObject(workflow, object), &policy.Scope{Namespace: namespaceOf("default-ttl", "1h")}).Failed
			if text := valueText(got); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}
