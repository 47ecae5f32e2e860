package judging

import (
	"errors"
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Judge decides what happens to an object at the instant now by its TTL after finished. The verdict
// is valid for exactly the resourceVersion in the facts (S1).
func Judge(facts *policy.Facts, effective *resolution.Effective, now time.Time) policy.Verdict {
	if verdict, ok := facts.Untouchable(effective.NoMultiKueue); ok {
		return verdict
	}
	switch {
	case facts.StateError != nil:
		return policy.Verdict{Action: policy.Keep, Reason: "its state cannot be read", Err: facts.StateError}
	case !facts.Finished:
		return policy.Kept("is not finished") // S4
	}
	value := effective.TTL(facts.Outcome)
	switch {
	case value.Unreached():
		return policy.Kept("finished before its runtime had this TTL")
	case !value.Set:
		return policy.Kept("has no TTL")
	case effective.Left(facts, value):
		return policy.Kept("its " + value.Path + " is left to Kubernetes")
	case value.Source.Level == lifetime.LevelObject && facts.CopiedFrom() != "":
		return policy.Kept("its TTL is a copy of that of " + facts.CopiedFrom()) // S5
	case value.Err != nil:
		return policy.Verdict{Action: policy.Keep, Reason: "its TTL cannot be used", Source: value.Source, Err: value.Problem()}
	case value.TTL.Never:
		return policy.Verdict{Action: policy.Keep, Reason: "its TTL is never", Source: value.Source}
	case facts.IsPod() && facts.AlwaysRestarts():
		return policy.Verdict{Action: policy.Keep, Reason: "restartPolicy is Always", Source: value.Source,
			Err: fmt.Errorf("%s: a Pod with restartPolicy Always has no TTL after finished", value.Path)}
	case facts.RerunBy() != "":
		return facts.KeepFor(facts.RerunBy(), value.Path, value.Source)
	case facts.Uncounted():
		return policy.Kept("the Job controller has not accounted for it")
	case facts.HeldByTally():
		return policy.Kept("its PodTally has not counted it")
	case effective.Counter.Keeps(facts.Outcome) != "":
		return policy.Verdict{Action: policy.Keep, Reason: effective.Counter.Keeps(facts.Outcome), Source: value.Source,
			Err: effective.Counter.Err}
	case facts.FinishTime.IsZero() && !facts.IsPod():
		return policy.Verdict{Action: policy.Keep, Reason: "does not say when it finished", Source: value.Source, Err: errNoFinishTime}
	case facts.FinishTime.IsZero():
		return policy.Verdict{Action: policy.RecordFinish, Trigger: policy.TriggerTTL, Source: value.Source,
			Reason: "does not say when it finished", DryRun: effective.DryRun || value.DryRun}
	}
	// A finish time in the future puts the expiry there too, so that it defers and never hastens.
	return policy.Verdict{Trigger: policy.TriggerTTL, Source: value.Source, Live: value.Live || facts.IsJobsPod(),
		Backfill: value.Backfill, DryRun: effective.DryRun || value.DryRun}.
		Due(facts.FinishTime.Add(value.TTL.After), now, policy.Delete).Propagated(effective.Propagation, effective.PropagationErr)
}

// errNoFinishTime keeps a finished object whose status lacks the finish time. For a Pod, which can
// lose its node and with it that time, Curfew records when it saw the Pod finished.
var errNoFinishTime = errors.New("its status has no usable finish time (missing, zero or the epoch): set it there, or delete the object")

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
	if verdict, ok := facts.Untouchable(scope.NoMultiKueue); ok {
		return verdict
	}
	switch {
	case !ok:
		return policy.Kept("has no TTL label")
	case key != wellknown.LabelTTL && outranked:
		return policy.Kept(fmt.Sprintf("label %s decides", wellknown.LabelTTL))
	case facts.CopiedFrom() != "":
		return policy.Kept("its TTL label is a copy of that of " + facts.CopiedFrom()) // S5
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
	clock, clockErr := facts.LabelClock()
	switch {
	case facts.NeverDeleted():
		return policy.KeptImmortal(key, source)
	case err != nil:
		return unusable(err) // S6
	case label.At.IsZero() && facts.Created.IsZero():
		return unusable(fmt.Errorf("%s counts from the creation, which the object does not say: use a date", label))
	case label.At.IsZero() && clockErr != nil:
		return policy.Verdict{Action: policy.Keep, Reason: "its last refresh cannot be read", Source: source, Err: clockErr} // S6
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
	// A refresh in the future puts the expiry there too, so that it defers and never hastens.
	return policy.Verdict{Trigger: policy.TriggerLabel,
		Source: source, Backfill: backfill, DryRun: scope.Mode() == resolution.ModeDryRun || scope.HoldsLabel(source)}.
		Due(scope.LabelExpiry(label, facts.Created, clock), now, policy.Delete).Propagated(propagation, err)
}
