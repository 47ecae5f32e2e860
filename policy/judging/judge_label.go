package judging

import (
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// JudgeLabel decides by the TTL label under key what happens to an object at the instant now:
// [wellknown.LabelTTL], or its alias [wellknown.LabelKyvernoTTL], which applies only where the
// first is absent. Unlike a TTL after finished, a label applies to unfinished and owned objects
// too. The verdict is valid for exactly the resourceVersion in the facts (S1).
func JudgeLabel(facts *policy.Facts, key string, scope *resolution.Scope, now time.Time) policy.Verdict {
	text, ok := facts.Labels[key]
	_, outranked := facts.Labels[wellknown.LabelTTL]
	if ok && facts.OwnKind() && !facts.Deleting {
		return policy.Verdict{Action: policy.Keep, Reason: "is part of Curfew", Source: lifetime.Source{Level: lifetime.LevelObject},
			Err: fmt.Errorf("%s: Curfew never deletes a %s: remove the label", policy.LabelPath(key), facts.Profile.Kind.Kind)}
	}
	if verdict, ok := facts.Untouchable(); ok {
		return verdict
	}
	switch {
	case !ok:
		return policy.Kept("has no TTL label")
	case key != wellknown.LabelTTL && outranked:
		return policy.Kept(fmt.Sprintf("label %s decides", wellknown.LabelTTL))
	}
	source, backfill := lifetime.Source{Level: lifetime.LevelObject}, false
	if key == wellknown.LabelTTL {
		source, backfill = scope.LabelSource(facts)
	}
	unusable := func(err error) policy.Verdict {
		return policy.Verdict{Action: policy.Keep, Reason: "its TTL label cannot be used", Source: source,
			Err: fmt.Errorf("%s: %w", policy.LabelPath(key), err)}
	}
	label, err := lifetime.ParseLabel(key, text)
	switch {
	case facts.NeverDeleted():
		return policy.KeptImmortal(key, source)
	case err != nil:
		return unusable(err) // S6
	case label.At.IsZero() && facts.Created.IsZero():
		return unusable(fmt.Errorf("%s counts from the creation, which the object does not say: use a date", label))
	case facts.RerunBy() != "":
		return facts.KeepFor(facts.RerunBy(), policy.LabelPath(key), source)
	case facts.IsPod() && facts.Uncounted():
		return policy.Kept("its Job has not accounted for it yet") // S5
	}
	if err := scope.CheckLabel(label, facts.Created, resolution.EnforcedBounds); err != nil {
		return unusable(err)
	}
	if !label.Expiry(facts.Created).After(facts.Created) {
		// Admission denies it. A restored object, or one that bypassed admission, stays (S6).
		return unusable(fmt.Errorf("%s expired before the object was created: use a later one, or delete the object", label))
	}
	propagation, _, err := scope.Propagation()
	return policy.Verdict{Trigger: policy.TriggerLabel, Source: source, Backfill: backfill, DryRun: scope.Mode() == resolution.ModeDryRun || scope.HoldsLabel(source)}.
		Due(label.Expiry(facts.Created), now, policy.Delete).Propagated(propagation, err)
}
