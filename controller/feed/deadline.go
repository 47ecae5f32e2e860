package feed

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// deadlines makes a feed judge deadlines, too.
type deadlines struct {
	plan *stop.Plan
	// grace is how long Curfew waits for the kind's own controller where that acts.
	grace time.Duration
}

// deadlinesOf is how objects of a kind are stopped; nil for kinds whose deadlines are left to their
// own controllers.
func deadlinesOf(profile *expression.Profile) *deadlines {
	way := profile.Enforcement
	if way == nil || len(way.Stop) == 0 {
		return nil
	}
	plan := &stop.Plan{
		Kind: profile.Kind, Resource: profile.Kind.GroupVersion().WithResource(profile.Resource), Steps: way.Stop,
	}
	if profile.Suspend != nil {
		plan.Suspend, plan.SuspendValue = profile.Suspend.Path, profile.Suspend.Value
	}
	return &deadlines{plan: plan, grace: way.Grace}
}

// idle tells of an object, without a look at anything else, that nothing can be due: the common
// case costs no look at the namespace.
func (f *trigger) idle(facts *policy.Facts) bool {
	if f.deadlines != nil {
		return facts.Finished && facts.Exceeded.IsZero()
	}
	return f.kind.Label == "" && !facts.Finished && facts.StateError == nil
}

// deadlineVerdict judges one state of an object, and returns what it takes to act on just that
// state.
func (f *trigger) deadlineVerdict(facts *policy.Facts, scope *policy.Scope, object runtime.Object) (policy.Verdict, any, error) {
	effective := policy.ResolveTrial(facts, scope)
	verdict := policy.JudgeDeadline(facts, &effective, f.deadlines.grace, f.options.Clock.Now())
	if verdict.Action != policy.Wait && verdict.Action != policy.Stop {
		return verdict, nil, nil
	}
	content, err := f.kind.JSON(object)
	if err != nil {
		return verdict, nil, err
	}
	return verdict, stop.StateOf(f.deadlines.plan, facts, content, effective.Deadline.TTL.After), nil
}
