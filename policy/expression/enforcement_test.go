package expression_test

import (
	"testing"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A stored profile can be older than the rule of the schema that the first step fails or suspends the object: it is reported, and Curfew
// does not enforce the deadline by it.
func TestFirstStepOfAStoredProfile(t *testing.T) {
	step := func(action v1alpha1.StopAction) v1alpha1.StopStep { return v1alpha1.StopStep{Action: action} }
	const reported = "spec.deadline.enforcement[0].stop[0].action: Invalid value: \"DeletePods\": must be MarkFailed or Suspend: nothing is deleted before the object was failed or suspended"
	for name, c := range map[string]struct {
		by    v1alpha1.Enforcer
		steps []v1alpha1.StopStep
		// enforced is whether the profile says who enforces at all, stops how many steps Curfew takes, and err what is reported.
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
