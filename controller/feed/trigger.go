package feed

import (
	"time"

	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// Trigger is one reason to track the objects of a feed. The triggers of a kind share its watch and
// the facts of each state. Otherwise they are independent.
type Trigger struct {
	// Name of the trigger, as the engine knows it.
	Name policy.Trigger
	// Keys are the annotations and labels by which it acts. A value that an object has from its
	// owner's template does not count.
	Keys []string
	// Idle reports, from the object alone, that nothing can be due. It saves reading the context.
	// Nil means that the context is always read.
	Idle func(facts *policy.Facts) bool
	// Judge judges one state of an object, and returns the payload that the action needs, if any.
	Judge func(state *State) (policy.Verdict, any, error)
}

// State is one state of an object, with the context that it is judged in.
type State struct {
	Facts   *policy.Facts
	Context *platform.Context
	// JSON returns the object in its JSON form.
	JSON func() (map[string]any, error)
	Now  time.Time
}

// TriggerOf returns a trigger as it applies to a kind with a profile, or nil if nothing of that
// kind is ever due for it. Its judge sees running Pods only if the trigger is Unfinished ([Pods]).
type TriggerOf func(profile *expression.Profile) *Trigger

// TTLs is the trigger for TTLs after finished.
func TTLs(*expression.Profile) *Trigger {
	return &Trigger{
		Name: policy.TriggerTTL, Keys: policy.LimitKeys(policy.TriggerTTL),
		Idle: func(facts *policy.Facts) bool { return !facts.Finished && facts.StateError == nil },
		Judge: func(state *State) (policy.Verdict, any, error) {
			effective := resolution.ResolveTrial(state.Facts, &state.Context.Scope)
			return judging.Judge(state.Facts, &effective, state.Now), nil, nil
		},
	}
}

// labelled is the trigger for the TTL label under a key.
func labelled(key string) *Trigger {
	return &Trigger{
		Name: policy.TriggerLabel, Keys: []string{key},
		Judge: func(state *State) (policy.Verdict, any, error) {
			verdict := judging.JudgeLabel(state.Facts, key, &state.Context.Scope, state.Now)
			verdict.Live = state.Context.Undecided
			return verdict, nil, nil
		},
	}
}

// Deadlines is the trigger for deadlines. Its payload is a stop.Payload, with which the action
// stops the object in exactly the state that was judged. It is nil for kinds whose own controllers
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
			effective := resolution.ResolveTrial(state.Facts, &state.Context.Scope)
			verdict := judging.JudgeDeadline(state.Facts, &effective, way.Grace, state.Now)
			if verdict.Action != policy.Wait && verdict.Action != policy.Stop {
				return verdict, nil, nil
			}
			content, err := state.JSON()
			if err != nil {
				return verdict, nil, err
			}
			return verdict, stop.PayloadOf(plan, state.Facts, content, effective.Deadline.TTL.After), nil
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
