package resolution

import (
	"time"

	"curfew.dev/curfew/policy"
)

// FillIn returns the values that admission writes into a new object, the TTL label included. An
// earlier call for the same object is undone first, so that a second call has the same result.
func FillIn(facts *policy.Facts, scope *Scope, now time.Time) ([]Assignment, Effective) {
	facts = Unfilled(facts, scope)
	effective := Resolve(facts, scope)
	assignments := Defaults(facts, &effective, scope)
	label, said := DefaultLabel(facts, scope, now)
	assignments = append(assignments, LabelAssignments(facts, label, said, false)...)
	return append(assignments, forgedLabelSource(facts, scope, now)...), effective
}
