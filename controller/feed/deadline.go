package feed

import (
	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// Deadlines is the trigger for deadlines. Its payload is a stop.State, with which the action stops
// the object in exactly the state that was judged. It is nil for kinds whose own controllers
// enforce deadlines.
func Deadlines(profile *expression.Profile) *Trigger {
	way := profile.Enforcement
	if way == nil || len(way.Stop) == 0 {
		return nil
	}
	plan := planOf(profile)
	return &Trigger{
		Name: policy.TriggerDeadline, Keys: policy.LimitKeys(policy.TriggerDeadline),
		Idle: func(facts *policy.Facts) bool { return facts.Finished && facts.Exceeded.IsZero() },
		Judge: func(state *State) (policy.Verdict, any, error) {
			effective := policy.ResolveTrial(state.Facts, &state.Context.Scope)
			verdict := policy.JudgeDeadline(state.Facts, &effective, way.Grace, state.Now)
			if verdict.Action != policy.Wait && verdict.Action != policy.Stop {
				return verdict, nil, nil
			}
			content, err := state.JSON()
			if err != nil {
				return verdict, nil, err
			}
			return verdict, stop.StateOf(plan, state.Facts, content, effective.Deadline.TTL.After), nil
		},
	}
}

func planOf(profile *expression.Profile) *stop.Plan {
	plan := &stop.Plan{
		Kind: profile.Kind, Resource: profile.Kind.GroupVersion().WithResource(profile.Resource), Steps: profile.Enforcement.Stop,
	}
	if profile.Suspend != nil {
		plan.Suspend, plan.SuspendValue = profile.Suspend.Path, profile.Suspend.Value
	}
	return plan
}
