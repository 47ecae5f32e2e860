package expression_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
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
		// enforced is whether the profile says who enforces at all, stops how many steps Curfew takes,
		// and err the reported error.
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
		output := ""
		if err := errs.ToAggregate(); err != nil {
			output = err.Error()
		}
		stops := 0
		if profile.Enforcement != nil {
			stops = len(profile.Enforcement.Stop)
		}
		if output != c.err || (profile.Enforcement != nil) != c.enforced || stops != c.stops || profile.AnnotatedDeadline && !c.enforced {
			t.Errorf("%s: %+v, error %q; want enforced %v with %d steps, error %q", name, profile.Enforcement, output, c.enforced, c.stops, c.err)
		}
	}
}

// That a schema has the field is not enough: Curfew enforces the deadline itself, and keeps out of
// the field, until an object shows that its own controller acts.
func TestWhoEnforcesTheDeadline(t *testing.T) {
	status := func(fields map[string]any) map[string]any { return map[string]any{"status": fields} }
	own := func(acts string) *expression.Profile {
		t.Helper()
		way := v1alpha1.Enforcement{By: v1alpha1.EnforcedByController, Stop: []v1alpha1.StopStep{{Action: v1alpha1.StopMarkFailed}}}
		if acts != "" {
			way.Acts = new(v1alpha1.Expression(acts))
		}
		profile, _ := expression.NewCompiler(expression.DefaultCacheSize).Profile(&v1alpha1.KindProfile{Spec: v1alpha1.KindProfileSpec{
			Kind:     v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Run", Resource: "runs"},
			State:    &v1alpha1.StateExpressions{Finished: "false", FinishTime: "null", Outcome: `"Failed"`},
			Deadline: &v1alpha1.DeadlineRules{Enforcement: []v1alpha1.Enforcement{way}},
		}})
		return profile
	}
	all, no := builtin(t), map[string]any{}
	for name, c := range map[string]struct {
		profile  *expression.Profile
		object   map[string]any
		byCurfew bool
	}{
		"JobSet, the gate is off":               {all["jobset.jobset.x-k8s.io"], status(map[string]any{"restarts": int64(1)}), true},
		"JobSet, new":                           {all["jobset.jobset.x-k8s.io"], no, true},
		"JobSet, the gate is on":                {all["jobset.jobset.x-k8s.io"], status(map[string]any{"startTime": "2026-03-01T08:00:05Z"}), false},
		"TrainJob":                              {all["trainjob.trainer.kubeflow.org"], no, false},
		"TrainJob before v2.2":                  {all["trainjob.trainer.kubeflow.org"].Served(func(fieldpath.FieldPath) bool { return false }), no, true},
		"Job":                                   {all["job.batch"], no, false},
		"RayJob":                                {all["rayjob.ray.io"], no, false},
		"a profile that says":                   {own("true"), no, false},
		"an expression that fails":              {own(`object.status.startedBy != ""`), no, true},
		"an expression that cannot be compiled": {own("object."), no, true},
		"a stored profile that does not say":    {own(""), no, true},
	} {
		if got := policy.FactsOfObject(c.profile.Profile, c.object).DeadlineByCurfew; got != c.byCurfew {
			t.Errorf("%s: enforced by Curfew is %v, want %v", name, got, c.byCurfew)
		}
	}
}

// A stored profile can be older than the schema's rule that a backstop says how its controller
// shows that it acts. Without that, Curfew cannot tell: it fails the object at its deadline and not
// a grace period later, and says so.
func TestBackstopThatDoesNotSayWhoActs(t *testing.T) {
	const reported = "spec.deadline.enforcement[0].acts: Required value: says how an object shows that its controller enforces the deadline: until it is set, Curfew enforces the deadline itself, without a grace period"
	stop := []v1alpha1.StopStep{{Action: v1alpha1.StopMarkFailed}}
	started := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		way   v1alpha1.Enforcement
		after time.Duration
		err   string
	}{
		"it does not say": {v1alpha1.Enforcement{By: v1alpha1.EnforcedByController, GraceSeconds: 30, Stop: stop}, time.Minute, reported},
		"it acts":         {v1alpha1.Enforcement{By: v1alpha1.EnforcedByController, GraceSeconds: 30, Stop: stop, Acts: new(v1alpha1.Expression("true"))}, 90 * time.Second, ""},
		"it does not act": {v1alpha1.Enforcement{By: v1alpha1.EnforcedByController, GraceSeconds: 30, Stop: stop, Acts: new(v1alpha1.Expression("false"))}, time.Minute, ""},
	} {
		profile, errs := expression.NewCompiler(expression.DefaultCacheSize).Profile(&v1alpha1.KindProfile{Spec: v1alpha1.KindProfileSpec{
			Kind:     v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Run", Resource: "runs"},
			State:    &v1alpha1.StateExpressions{Started: new(v1alpha1.Expression("object.metadata.creationTimestamp")), Finished: "false", FinishTime: "null", Outcome: `"Failed"`},
			Fields:   &v1alpha1.NativeFields{Deadline: new(v1alpha1.FieldPath("spec.activeDeadlineSeconds"))},
			Deadline: &v1alpha1.DeadlineRules{Enforcement: []v1alpha1.Enforcement{c.way}},
		}})
		output := ""
		if err := errs.ToAggregate(); err != nil {
			output = err.Error()
		}
		facts := policy.FactsOfObject(profile.Profile, map[string]any{
			"metadata": map[string]any{"namespace": "ci", "name": "a", "creationTimestamp": started.Format(time.RFC3339)}, "spec": map[string]any{"activeDeadlineSeconds": int64(60)},
		})
		effective := resolution.Resolve(facts, &resolution.Scope{})
		verdict := judging.JudgeDeadline(facts, &effective, profile.Enforcement.Grace, started)
		if output != c.err || verdict.Action != policy.Wait || !verdict.Expiry.Equal(started.Add(c.after)) {
			t.Errorf("%s: %s %s, error %q; want stopped %s after the start, error %q", name, verdict.Action, verdict.Expiry, output, c.after, c.err)
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
		must(t, errs.ToAggregate())
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
