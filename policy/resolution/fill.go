package resolution

import (
	"time"

	"curfew.dev/curfew/policy"
)

// FillIn returns the values that admission writes into a new object, the TTL label included. What an
// earlier call for the same object filled in is taken out first.
func FillIn(facts *policy.Facts, scope *Scope, now time.Time) ([]Assignment, Effective) {
	facts, taken := Unfilled(facts, scope, now)
	effective := Resolve(facts, scope)
	assignments := Defaults(facts, &effective, scope)
	label, setting := DefaultLabel(facts, scope, now)
	return Replace(taken, append(assignments, LabelAssignments(facts, label, setting, false)...)), effective
}
