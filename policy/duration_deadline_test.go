package policy_test

import (
	"context"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// pipelineRun is a kind whose deadline is a Go duration, and which may be given a default.
var pipelineRun = &policy.Profile{
	Name: "pipelinerun", Deadline: fieldpath.MustFieldPath("spec.timeouts.pipeline"), DurationDeadline: true, DefaultDeadline: true,
	State: func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil },
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
		"short form":           {timeout: "90m", want: "1h30m object"},
		"part of second":       {timeout: "1500ms", want: "2s object"},
		"a nanosecond":         {timeout: "1ns", want: "1s object"},
		"very long":            {timeout: "2000000h", want: "24855d3h14m7s object"},
		"none":                 {timeout: "0", want: "never object"},
		"none under a maximum": {timeout: "0s", namespace: []string{"max-deadline", "2h"}, want: "unusable object", err: `no deadline is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`},
		"above":                {timeout: "3h", namespace: []string{"max-deadline", "2h"}, want: "unusable object", err: `3h is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`},
		"below":                {timeout: "1ms", namespace: []string{"min-deadline", "1m"}, want: "unusable object", err: `1ms is below curfew.dev/min-deadline 1m of namespace "ci": use 1m or more`},
		"negative":             {timeout: "-1h", want: "unusable object", err: `"-1h" is negative: a deadline is 1s or more, or 0 for none`},
		"days":                 {timeout: "1d", want: "unusable object", err: `"1d" is not a duration: use units h, m, s (1h30m), or 0 for none`},
		"a number":             {timeout: int64(3600), want: "unusable object", err: `3600 is not a duration: use units h, m, s (1h30m), or 0 for none`},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfObject(pipelineRun, pipelineRunWith(test.timeout))
			got := resolution.Resolve(facts, &resolution.Scope{Creating: true, Namespace: namespaceOf(test.namespace...)}).Deadline
			if text := valueText(got); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			if text := errText(got.Err); text != test.err {
				t.Errorf("error %q, want %q", text, test.err)
			}
		})
	}
}

// A default of a namespace or a runtime is written in the field's own form, announced in that form,
// and recognized when admission is asked again for the same CREATE. Another value beside a forged
// stamp is its author's, and the stamp is removed.
func TestDurationDeadlineIsFilledIn(t *testing.T) {
	stamped := func(timeout any, source string) *policy.Facts {
		object := pipelineRunWith(timeout)
		object["metadata"].(map[string]any)["annotations"] = map[string]any{wellknown.AnnotationDeadlineSource: source}
		return policy.FactsOfObject(pipelineRun, object)
	}
	plain := policy.FactsOfObject(pipelineRun, pipelineRunWith(nil))
	for source, test := range map[string]struct {
		scope       resolution.Scope
		value, from string
	}{
		"namespace/ci":  {resolution.Scope{Namespace: namespaceOf("default-deadline", "1d12h")}, "36h0m0s", `namespace "ci"`},
		"runtime/torch": {resolution.Scope{Namespace: namespaceOf(), Runtime: saidDeadline("1h")}, "1h0m0s", `runtime "torch"`},
	} {
		scope := &test.scope
		scope.Creating = true
		for _, facts := range []*policy.Facts{plain, stamped(test.value, source)} {
			assignments, effective := resolution.FillIn(facts, scope, noon)
			if len(assignments) != 2 || assignments[0].Path.String() != "spec.timeouts.pipeline" || assignments[0].Value != test.value || effective.Deadline.Source.String() != source {
				t.Errorf("%s: filled in %v, %+v", source, assignments, effective.Deadline)
			}
		}
		if defaults := resolution.Defaulted(stamped(test.value, source), scope, noon); len(defaults) != 1 || defaults[0].String() != "timeouts.pipeline defaulted to "+test.value+" from "+test.from {
			t.Errorf("%s: announced %v", source, defaults)
		}
		forged, effective := resolution.FillIn(stamped("5h0m0s", source), scope, noon)
		if effective.Deadline.Source.String() != "object" || len(forged) != 1 || forged[0].Value != nil {
			t.Errorf("%s: a forged stamp: %v, %+v", source, forged, effective.Deadline)
		}
	}
	dryRun := &resolution.Scope{Creating: true, Namespace: namespaceOf("default-deadline", "1h", "mode", "dry-run")}
	if defaults := resolution.Defaulted(plain, dryRun, noon); len(defaults) != 1 || defaults[0].String() != `timeouts.pipeline would be defaulted to 1h0m0s from namespace "ci" (dry-run)` {
		t.Errorf("in dry-run %v", defaults)
	}
}

// A deadline that was filled in is not judged again by later bounds, as a TTL is not: it is neither
// lost for them nor shortened. One below a minimum waits for that, because whoever got past
// admission may have forged the stamp; where that cannot be read, there is none (S6).
func TestStampedDeadlineAndBounds(t *testing.T) {
	for name, test := range map[string]struct {
		stamp, bound, text, want string
	}{
		"above, of a policy": {"policy/a", "max-deadline", "1h", "2h policy/a"},
		"below":              {"namespace/ci", "min-deadline", "3h", "3h namespace/ci"},
		"within":             {"namespace/ci", "min-deadline", "1h", "2h namespace/ci"},
		"minimum unreadable": {"namespace/ci", "min-deadline", "?", "unusable namespace/ci"},
		"its author's":       {"", "max-deadline", "1h", "unusable object"},
		"of another":         {"namespace/other", "max-deadline", "1h", "unusable object"},
		"garbage":            {"?", "min-deadline", "3h", "unusable object"},
	} {
		t.Run(name, func(t *testing.T) {
			object := pipelineRunWith("2h0m0s")
			if test.stamp != "" {
				object["metadata"].(map[string]any)["annotations"] = map[string]any{wellknown.AnnotationDeadlineSource: test.stamp}
			}
			facts := policy.FactsOfObject(pipelineRun, object)
			scope := &resolution.Scope{Namespace: namespaceOf("default-deadline", "9h", test.bound, test.text)}
			if text := valueText(resolution.Resolve(facts, scope).Deadline); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			// At its creation the stamp is its author's, and gives no rights.
			scope.Creating = true
			if text, inside := valueText(resolution.Resolve(facts, scope).Deadline), name == "within"; text != "2h object" && inside || text != "unusable object" && !inside {
				t.Errorf("at its creation: %q", text)
			}
		})
	}
}

// No default deadline for a Pod, even if a KindProfile allows it; the Pods of a Job, which
// NoDefault lets through for default-pod-ttl, least of all (S5).
func TestNoDefaultDeadlineForPods(t *testing.T) {
	profile := *policy.PodProfile
	profile.DefaultDeadline = true
	scope := &resolution.Scope{Namespace: namespaceOf("default-deadline", "1h"), Creating: true}
	for name, pod := range map[string]*builders.PodWrapper{"bare": builders.MakePod("ci", "a"), "of a Job": builders.MakePod("ci", "a").ControlledBy("batch/v1", "Job", "build")} {
		if assignments, effective := resolution.FillIn(policy.FactsOfObject(&profile, pod.Map()), scope, noon); len(assignments) > 0 || effective.Deadline.Set {
			t.Errorf("%s: filled in %v of %+v", name, assignments, effective.Deadline)
		}
	}
}

// saidDeadline is a runtime that has a deadline.
func saidDeadline(text string) *resolution.RuntimePolicy {
	facts := policy.FactsOfObject(&policy.Profile{AnnotatedDeadline: true}, map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationActiveDeadline: text}}})
	return &resolution.RuntimePolicy{Name: "torch", Deadline: facts.Deadline()}
}

// A runtime's deadline is a default: after the object's own, which a runtime that is gone or bad
// does not disable, and before the defaults of the namespace. It is moved into the bounds, and
// written into the object with its source.
func TestRuntimeDeadline(t *testing.T) {
	gone := &resolution.RuntimePolicy{Name: "torch", Missing: true}
	for name, test := range map[string]struct {
		runtime   *resolution.RuntimePolicy
		own       any
		copied    bool
		owner     bool
		namespace []string
		want      string
		filled    string
	}{
		"alone":                     {runtime: saidDeadline("1h"), want: "1h runtime/torch", filled: "1h0m0s"},
		"beside a shorter one":      {runtime: saidDeadline("9h"), own: "1h", want: "1h object"},
		"before a default":          {runtime: saidDeadline("1h"), namespace: []string{"default-deadline", "9h"}, want: "1h runtime/torch", filled: "1h0m0s"},
		"above a bound":             {runtime: saidDeadline("9h"), namespace: []string{"max-deadline", "1h"}, want: "1h runtime/torch", filled: "1h0m0s"},
		"below a bound":             {runtime: saidDeadline("1h"), namespace: []string{"min-deadline", "2h"}, want: "2h runtime/torch", filled: "2h0m0s"},
		"in dry-run":                {runtime: saidDeadline("1h"), namespace: []string{"mode", "dry-run"}, want: "1h runtime/torch"},
		"unreadable, own":           {runtime: saidDeadline("soon"), own: "1h", want: "1h object"},
		"unreadable, a default":     {runtime: saidDeadline("soon"), namespace: []string{"default-deadline", "9h"}, want: "unusable runtime/torch"},
		"mute, with a default":      {runtime: &resolution.RuntimePolicy{Name: "torch"}, namespace: []string{"default-deadline", "9h"}, want: "9h namespace/ci", filled: "9h0m0s"},
		"gone, own":                 {runtime: gone, own: "1h", want: "1h object"},
		"gone, with a default":      {runtime: gone, namespace: []string{"default-deadline", "9h"}},
		"of a copy":                 {runtime: saidDeadline("1h"), copied: true},
		"of what a controller owns": {runtime: saidDeadline("1h"), owner: true},
	} {
		t.Run(name, func(t *testing.T) {
			object := pipelineRunWith(test.own)
			metadata := object["metadata"].(map[string]any)
			if test.copied {
				metadata["labels"] = map[string]any{wellknown.LabelMultiKueueOrigin: "hub"}
			}
			if test.owner {
				metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "example.com/v1", "kind": "Trial", "name": "t", "uid": "u", "controller": true}}
			}
			scope := &resolution.Scope{Creating: true, Runtime: test.runtime, Namespace: namespaceOf(test.namespace...)}
			assignments, effective := resolution.FillIn(policy.FactsOfObject(pipelineRun, object), scope, noon)
			if text := valueText(effective.Deadline); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			filled := ""
			if len(assignments) > 0 {
				filled, _ = assignments[0].Value.(string)
				if stamp := assignments[len(assignments)-1]; len(assignments) != 2 || stamp.Value != effective.Deadline.Source.String() {
					t.Errorf("filled in %v", assignments)
				}
			}
			if filled != test.filled {
				t.Errorf("filled in %q, want %q", filled, test.filled)
			}
		})
	}
}

// An existing object keeps the deadline that was stamped from its runtime, even if the runtime
// changes, is deleted or becomes unreadable. An object that bypassed admission gets no deadline from
// a runtime, since nothing says how long the runtime has had it, and none from the levels below.
func TestRuntimeDeadlineDoesNotReachWhatRuns(t *testing.T) {
	namespace := namespaceOf("default-deadline", "9h", "backfill", "true")
	for name, runtime := range map[string]*resolution.RuntimePolicy{
		"the same": saidDeadline("1h"), "shorter": saidDeadline("2s"), "unreadable": saidDeadline("soon"),
		"without one": {Name: "torch"}, "gone": {Name: "torch", Missing: true}, "none": nil,
	} {
		object := pipelineRunWith("1h0m0s")
		metadata := object["metadata"].(map[string]any)
		metadata["creationTimestamp"] = noon.Add(-time.Minute).Format(time.RFC3339)
		metadata["annotations"] = map[string]any{wellknown.AnnotationDeadlineSource: "runtime/torch"}
		scope := &resolution.Scope{Runtime: runtime, Namespace: namespace}
		facts := policy.FactsOfObject(pipelineRun, object)
		if text := valueText(resolution.Resolve(facts, scope).Deadline); text != "1h runtime/torch" {
			t.Errorf("%s: the stamped deadline is %q", name, text)
		}
		own := pipelineRunWith("2h0m0s")
		if text := valueText(resolution.Resolve(policy.FactsOfObject(pipelineRun, own), scope).Deadline); text != "2h object" {
			t.Errorf("%s: the object's own deadline is %q", name, text)
		}
		if runtime == nil || !runtime.Missing && runtime.Deadline == nil {
			continue
		}
		object = pipelineRunWith(nil)
		object["metadata"].(map[string]any)["creationTimestamp"] = noon.Add(-time.Minute).Format(time.RFC3339)
		if got := resolution.Resolve(policy.FactsOfObject(pipelineRun, object), scope).Deadline; got.Set {
			t.Errorf("%s: past admission it has %q", name, valueText(got))
		}
	}
}

// The author's annotation is copied into the kind's own field, where that is empty: else the kind's
// own controller knows nothing of it.
func TestAnnotatedDeadlineIsCopied(t *testing.T) {
	both := *pipelineRun
	both.AnnotatedDeadline = true
	ignored := both
	ignored.DeadlineByCurfew = func(context.Context, map[string]any) bool { return true }
	for name, test := range map[string]struct {
		profile   *policy.Profile
		own       any
		text      string
		changes   map[string]any
		namespace []string
		want      string
		filled    []string
	}{
		"before a default":   {profile: &both, text: "8h", namespace: []string{"default-deadline", "1h"}, want: "8h object", filled: []string{"spec.timeouts.pipeline=8h0m0s", "metadata.annotations.curfew.dev/deadline-source=object"}},
		"set already":        {profile: &both, own: "8h0m0s", text: "8h", want: "8h object"},
		"outside the bounds": {profile: &both, text: "8h", namespace: []string{"max-deadline", "1h"}, want: "unusable object"},
		"in dry-run":         {profile: &both, text: "8h", namespace: []string{"mode", "dry-run"}, want: "8h object"},
		"protected":          {profile: &both, text: "8h", changes: map[string]any{"annotations": map[string]any{wellknown.AnnotationActiveDeadline: "8h", wellknown.AnnotationProtect: "true"}}, want: "8h object"},
		"a copy":             {profile: &both, text: "8h", changes: map[string]any{"labels": map[string]any{wellknown.LabelMultiKueueOrigin: "hub"}}, want: "8h object"},
		"a kind without":     {profile: pipelineRun, text: "8h"},
		"no controller acts": {profile: &ignored, text: "8h", want: "8h object"},
	} {
		t.Run(name, func(t *testing.T) {
			object := pipelineRunWith(test.own)
			metadata := object["metadata"].(map[string]any)
			metadata["annotations"] = map[string]any{wellknown.AnnotationActiveDeadline: test.text}
			for key, value := range test.changes {
				metadata[key] = value
			}
			scope := &resolution.Scope{Creating: true, Namespace: namespaceOf(test.namespace...)}
			facts := policy.FactsOfObject(test.profile, object)
			assignments, effective := resolution.FillIn(facts, scope, noon)
			if text := valueText(effective.Deadline); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
			var filled []string
			for _, assignment := range assignments {
				filled = append(filled, assignment.Path.String()+"="+assignment.Value.(string))
			}
			equal(t, filled, test.filled)
			if defaults := resolution.Defaulted(facts, scope, noon); len(defaults) > 0 {
				t.Errorf("announced %v, which is the author's own", defaults)
			}
		})
	}
}

// A default stays out of a field that the kind's own controller is not known to act on, and asked
// again for the same CREATE, admission fills in the same.
func TestDefaultDeadlineWhereNoControllerActs(t *testing.T) {
	ignored := *pipelineRun
	ignored.AnnotatedDeadline, ignored.DeadlineByCurfew = true, func(context.Context, map[string]any) bool { return true }
	scope := &resolution.Scope{Creating: true, Namespace: namespaceOf("default-deadline", "1h")}
	annotations := map[string]any{}
	for range 2 {
		object := pipelineRunWith(nil)
		object["metadata"].(map[string]any)["annotations"] = annotations
		assignments, effective := resolution.FillIn(policy.FactsOfObject(&ignored, object), scope, noon)
		annotations = map[string]any{}
		for _, assignment := range assignments {
			annotations[assignment.Path[len(assignment.Path)-1]] = assignment.Value
		}
		if text := valueText(effective.Deadline); text != "1h namespace/ci" || len(annotations) == 0 || annotations[wellknown.AnnotationActiveDeadline] != "1h" {
			t.Errorf("%q, filled in %v", text, annotations)
		}
	}
}

// A kind's own field for what failed does not speak of what ended in an error, where its controller
// tells the two apart: the object is then kept for as long as the plain field says, or for good
// (S6).
func TestNativeFieldByOutcomeOfAnError(t *testing.T) {
	workflow := &policy.Profile{
		Name: "workflow", TTL: fieldpath.MustFieldPath("spec.ttl"), TTLFailed: fieldpath.MustFieldPath("spec.ttlFailed"),
		State: func(_ context.Context, object map[string]any) (policy.State, error) {
			return policy.State{Finished: true, Outcome: lifetime.Failed, Errored: object["phase"] == "Error", FinishTime: noon}, nil
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
				annotations[wellknown.AnnotationTTLFailed] = test.note
			}
			object := map[string]any{"phase": test.phase, "spec": test.spec, "metadata": map[string]any{
				"namespace": "ci", "creationTimestamp": noon.Add(-time.Hour).Format(time.RFC3339), "annotations": annotations}}
			got := resolution.Resolve(policy.FactsOfObject(workflow, object), &resolution.Scope{Namespace: namespaceOf("default-ttl", "1h")}).Failed
			if text := valueText(got); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}
