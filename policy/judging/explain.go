package judging

import (
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Explanation shows for one object which level of precedence decides each of its values, and what
// Curfew will do with it. It decides nothing itself: it holds the answers of
// [resolution.ResolveTraced], [Judge], [JudgeLabel] and [JudgeDeadline].
type Explanation struct {
	Facts     *policy.Facts
	Scope     *resolution.Scope
	Effective resolution.Effective
	// Trace has the levels of precedence.
	*resolution.Trace
	// LabelKey is the label that applies, [wellknown.LabelTTL] or its alias; "" where the object has
	// none.
	LabelKey string
	// Bounds that values of the object must lie within, and to which defaults are clamped.
	Bounds []*lifetime.Setting

	// ByTTL, ByLabel and ByDeadline are the verdicts of each trigger.
	ByTTL, ByLabel, ByDeadline policy.Verdict
	// Others are the verdicts of triggers that have a judge of their own in [Triggers].
	Others []policy.Verdict
}

// Question holds the inputs of an explanation beside the object and its scope.
type Question struct {
	// Alias means that the label cleanup.kyverno.io/ttl is understood.
	Alias bool
	Now   time.Time
}

// Explain explains one object.
func Explain(facts *policy.Facts, scope *resolution.Scope, question Question) *Explanation {
	e := &Explanation{Facts: facts, Scope: scope, Bounds: scope.BoundsFor(facts, resolution.AllBounds).Settings()}
	e.Effective, e.Trace = resolution.ResolveTraced(facts, scope)
	if facts.Profile.Finishable() {
		e.ByTTL = Judge(facts, &e.Effective, question.Now)
	} else {
		e.ByTTL = policy.Kept("a " + facts.Profile.Kind.Kind + " does not finish")
	}
	if facts.Profile.HasDeadline() {
		e.ByDeadline = JudgeDeadline(facts, &e.Effective, 0, question.Now)
	} else {
		e.ByDeadline = policy.Kept("a " + facts.Profile.Kind.Kind + " has no deadline")
	}
	key := wellknown.LabelTTL
	if _, ok := facts.Labels[wellknown.LabelTTL]; !ok && question.Alias {
		key = wellknown.LabelKyvernoTTL
	}
	if _, ok := facts.Labels[key]; ok {
		e.LabelKey = key
	}
	e.ByLabel = JudgeLabel(facts, key, scope, question.Now)
	for _, trigger := range triggers {
		if trigger.Judge != nil {
			verdict := trigger.Judge(e, question.Now)
			verdict.Trigger = trigger.Name
			e.Others = append(e.Others, verdict)
		}
	}
	return e
}

// Goes is the earliest verdict that deletes the object; ok is false where none does.
func (e *Explanation) Goes() (earliest policy.Verdict, ok bool) {
	for _, verdict := range []policy.Verdict{e.ByTTL, e.ByLabel} {
		if (verdict.Action == policy.Wait || verdict.Action == policy.Delete) && (!ok || verdict.Expiry.Before(earliest.Expiry)) {
			earliest, ok = verdict, true
		}
	}
	return earliest, ok
}
