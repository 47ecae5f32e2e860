package judging

import (
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Held is the obstacle that [Explanation.HeldBy] is to a trigger.
func (e *Explanation) Held(trigger policy.Trigger) []Obstacle {
	source, ok := e.HeldBy(trigger)
	if !ok {
		return nil
	}
	return []Obstacle{{ObstacleDryRun, source.Phrase() + " is in mode DryRun: what its defaults make due is only reported", true}}
}

// HeldBy is the policy in dry-run whose default alone makes the object due for a trigger; ok is
// false where there is none.
func (e *Explanation) HeldBy(trigger policy.Trigger) (of lifetime.Source, ok bool) {
	var values []resolution.Value
	switch trigger {
	case policy.TriggerTTL:
		values = []resolution.Value{e.Effective.Succeeded, e.Effective.Failed}
	case policy.TriggerDeadline:
		values = []resolution.Value{e.Effective.Deadline}
	case policy.TriggerLabel:
		source, _ := e.Scope.LabelSource(e.Facts)
		return source, e.LabelKey == wellknown.LabelTTL && e.Scope.HoldsLabel(source)
	}
	at := slices.IndexFunc(values, func(value resolution.Value) bool { return value.DryRun })
	if at < 0 {
		return lifetime.Source{}, false
	}
	return values[at].Source, true
}
