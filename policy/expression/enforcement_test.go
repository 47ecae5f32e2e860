package expression_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A stored profile can be older than the rule of the schema that the first step fails or suspends
// the object: it is reported, and Curfew does not enforce the deadline by it.
func TestFirstStepOfAStoredProfile(t *testing.T) {
	step := func(action v1alpha1.StopAction) v1alpha1.StopStep { return v1alpha1.StopStep{Action: action} }
	const reported = "spec.deadline.enforcement[0].stop[0].action: Invalid value: \"DeletePods\": must be MarkFailed or Suspend: nothing is deleted before the object was failed or suspended"
	for name, c := range map[string]struct {
		by    v1alpha1.Enforcer
		steps []v1alpha1.StopStep
		// enforced is whether the profile says who enforces at all, stops how many steps Curfew
		// takes, and err what is reported.
		enforced bool
		stops    int
		err      string
	}{
		"MarkFailed":               {v1alpha1.EnforcedByCurfew, []v1alpha1.StopStep{step(v1alpha1.StopMarkFailed), step(v1alpha1.StopDeletePods)}, true, 2, ""},
		"Suspend":                  {v1alpha1.EnforcedByCurfew, []v1alpha1.StopStep{step(v1alpha1.StopSuspend)}, true, 1, ""},
		"DeletePods by Curfew":     {v1alpha1.EnforcedByCurfew, []v1alpha1.StopStep{step(v1alpha1.StopDeletePods), step(v1alpha1.StopMarkFailed)}, false, 0, reported},
		"DeletePods as a backstop": {v1alpha1.EnforcedByController, []v1alpha1.StopStep{step(v1alpha1.StopDeletePods)}, true, 0, reported},
		"no backstop":              {v1alpha1.EnforcedByController, nil, true, 0, ""},
	} {
		object := &v1alpha1.KindProfile{Spec: v1alpha1.KindProfileSpec{
			Kind:     v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Run", Resource: "runs"},
			State:    &v1alpha1.StateExpressions{Finished: "false", FinishTime: "null", Outcome: `"Failed"`},
			Deadline: &v1alpha1.DeadlineRules{Enforcement: []v1alpha1.Enforcement{{By: c.by, Stop: c.steps}}},
		}}
		profile, errs := expression.NewCompiler(expression.DefaultCacheSize).Profile(object)
		said := ""
		if err := errs.ToAggregate(); err != nil {
			said = err.Error()
		}
		stops := 0
		if profile.Enforcement != nil {
			stops = len(profile.Enforcement.Stop)
		}
		if said != c.err || (profile.Enforcement != nil) != c.enforced || stops != c.stops || profile.AnnotatedDeadline && !c.enforced {
			t.Errorf("%s: %+v, error %q; want enforced %v with %d steps, error %q", name, profile.Enforcement, said, c.enforced, c.stops, c.err)
		}
	}
}

// A condition cannot be written where a CustomResourceDefinition has no status subresource: Curfew
// then enforces no deadline, and says why.
func TestMarkFailedNeedsAStatusSubresource(t *testing.T) {
	definition := func(kind, resource string, status bool) *expression.Definition {
		version := map[string]any{"name": "v1", "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}
		if status {
			version["subresources"] = map[string]any{"status": map[string]any{}}
		}
		out := expression.DefinitionOf(map[string]any{
			"spec":   map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": resource}, "versions": []any{version}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
		})
		return &out
	}
	child := &v1alpha1.Child{ProfiledKind: v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Set", Resource: "sets"}}
	pods, set := v1alpha1.StopStep{Action: v1alpha1.StopDeletePods}, v1alpha1.StopStep{Action: v1alpha1.StopMarkFailed, Child: child}
	const ofRun, ofSet = "which Run.example.com has not in version v1", "which Set.example.com has not in version v1"
	for name, c := range map[string]struct {
		run, set *expression.Definition
		steps    []v1alpha1.StopStep
		want     string
	}{
		"its own":               {definition("Run", "runs", true), nil, []v1alpha1.StopStep{{Action: v1alpha1.StopMarkFailed}, pods}, ""},
		"its own is absent":     {definition("Run", "runs", false), nil, []v1alpha1.StopStep{{Action: v1alpha1.StopMarkFailed}, pods}, ofRun},
		"absent, suspended":     {definition("Run", "runs", false), nil, []v1alpha1.StopStep{{Action: v1alpha1.StopSuspend}, pods}, ""},
		"the child's":           {definition("Run", "runs", false), definition("Set", "sets", true), []v1alpha1.StopStep{set, pods}, ""},
		"the child's is absent": {definition("Run", "runs", true), definition("Set", "sets", false), []v1alpha1.StopStep{set, pods}, ofSet},
		"an unknown child":      {definition("Run", "runs", true), nil, []v1alpha1.StopStep{set, pods}, ""},
	} {
		profile, errs := expression.NewCompiler(expression.DefaultCacheSize).Profile(&v1alpha1.KindProfile{Spec: v1alpha1.KindProfileSpec{
			Kind:     v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Run", Resource: "runs"},
			State:    &v1alpha1.StateExpressions{Finished: "false", FinishTime: "null", Outcome: `"Failed"`},
			Deadline: &v1alpha1.DeadlineRules{Enforcement: []v1alpha1.Enforcement{{By: v1alpha1.EnforcedByCurfew, Stop: c.steps}}},
		}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		fields, ok := c.run.Serves(profile)
		if !ok {
			t.Fatal("not served")
		}
		got := profile.Installed(fields, func(kind schema.GroupKind) *expression.Definition {
			if kind.Kind == "Set" {
				return c.set
			}
			return c.run
		})
		if !strings.Contains(got.Unenforced, c.want) || (got.Unenforced == "") != (c.want == "") || (got.Enforcement == nil) != (c.want != "") || got.AnnotatedDeadline != (c.want == "") {
			t.Errorf("%s: %q, enforcement %+v; want %q", name, got.Unenforced, got.Enforcement, c.want)
		}
	}
}
