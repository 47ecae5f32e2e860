package policy

import "time"

// Explanation shows for one object which level of precedence decides each of its values, and what
// Curfew will do with it. It decides nothing itself: it holds the answers of [ResolveTraced],
// [Judge], [JudgeLabel] and [JudgeDeadline].
type Explanation struct {
	Facts     *Facts
	Scope     *Scope
	Effective Effective
	// Trace has the levels of precedence.
	*Trace
	// LabelKey is the label that applies, [LabelTTL] or its alias; "" where the object has none.
	LabelKey string
	// Bounds that values of the object must lie within, and to which defaults are clamped.
	Bounds []*Setting

	// ByTTL, ByLabel and ByDeadline are the verdicts of each trigger.
	ByTTL, ByLabel, ByDeadline Verdict
}

// Question holds the inputs of an explanation beside the object and its scope.
type Question struct {
	// Alias means that the label cleanup.kyverno.io/ttl is understood.
	Alias bool
	// Grace is how long after the deadline Curfew waits for the kind's own controller.
	Grace time.Duration
	Now   time.Time
}

// Explain explains one object.
func Explain(facts *Facts, scope *Scope, question Question) *Explanation {
	e := &Explanation{Facts: facts, Scope: scope, Bounds: scope.BoundsFor(facts, AllBounds).Settings()}
	e.Effective, e.Trace = ResolveTraced(facts, scope)
	if facts.Profile.Finishable() {
		e.ByTTL = Judge(facts, &e.Effective, question.Now)
	} else {
		e.ByTTL = keep("a " + facts.Profile.Kind.Kind + " does not finish")
	}
	if facts.Profile.HasDeadline() {
		e.ByDeadline = JudgeDeadline(facts, &e.Effective, question.Grace, question.Now)
	} else {
		e.ByDeadline = keep("a " + facts.Profile.Kind.Kind + " has no deadline")
	}
	key := LabelTTL
	if _, ok := facts.Labels[LabelTTL]; !ok && question.Alias {
		key = LabelKyvernoTTL
	}
	if _, ok := facts.Labels[key]; ok {
		e.LabelKey = key
	}
	e.ByLabel = JudgeLabel(facts, key, scope, question.Now)
	return e
}

// Goes is the earliest verdict that deletes the object; ok is false where none does.
func (e *Explanation) Goes() (earliest Verdict, ok bool) {
	for _, verdict := range []Verdict{e.ByTTL, e.ByLabel} {
		if (verdict.Action == Wait || verdict.Action == Delete) && (!ok || verdict.Expiry.Before(earliest.Expiry)) {
			earliest, ok = verdict, true
		}
	}
	return earliest, ok
}
