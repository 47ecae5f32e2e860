package judging

import (
	"errors"
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
)

// Judge decides what happens to an object at the instant now by its TTL after finished. The verdict
// is valid for exactly the resourceVersion in the facts (S1).
func Judge(facts *policy.Facts, effective *resolution.Effective, now time.Time) policy.Verdict {
	if verdict, ok := facts.Untouchable(); ok {
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
		return policy.Verdict{Action: policy.Keep, Reason: effective.Counter.Keeps(facts.Outcome), Source: value.Source, Err: effective.Counter.Err}
	case facts.FinishTime.IsZero() && !facts.IsPod():
		return policy.Verdict{Action: policy.Keep, Reason: "does not say when it finished", Source: value.Source, Err: errNoFinishTime}
	case facts.FinishTime.IsZero():
		return policy.Verdict{Action: policy.RecordFinish, Trigger: policy.TriggerTTL, Source: value.Source,
			Reason: "does not say when it finished", DryRun: effective.DryRun || value.DryRun}
	}
	// A finish time in the future puts the expiry there too, so that it defers and never hastens.
	return policy.Verdict{Trigger: policy.TriggerTTL, Source: value.Source, Live: value.Live || facts.IsJobsPod(), Backfill: value.Backfill, DryRun: effective.DryRun || value.DryRun}.
		Due(facts.FinishTime.Add(value.TTL.After), now, policy.Delete).Propagated(effective.Propagation, effective.PropagationErr)
}

// errNoFinishTime keeps a finished object whose status lacks the finish time. For a Pod, which can
// lose its node and with it that time, Curfew records when it saw the Pod finished.
var errNoFinishTime = errors.New("its status has no usable finish time (missing, zero or the epoch): set it there, or delete the object")
