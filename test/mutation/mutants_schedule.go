package main

const (
	schedules = "policy/schedule"
	converts  = "cmd/kubectl-curfew/convert"
)

// ofSchedules break when cleanup policies run, and what converted ones delete.
var ofSchedules = []Mutant{
	{
		Invariant: "S1", Name: "a run at a time that the clock repeats happens twice",
		File: "policy/schedule/schedule.go",
		Old:  "s.next(s.furthest(after))", New: "s.next(s.wall(after))",
		Package: schedules, Tests: []string{"TestChangesOfTheClock", "TestTwoYearsAgainstTheClock"},
	},
	{
		Invariant: "S3", Name: "a run at a time that the clock skips is early",
		File: "policy/schedule/schedule.go",
		Old:  "at = from // The clock skipped it.", New: "at = at.Add(0)",
		Package: schedules, Tests: []string{"TestChangesOfTheClock", "TestTwoYearsAgainstTheClock"},
	},
	{
		Invariant: "S6", Name: "a condition that cannot be converted is dropped",
		File: "cmd/kubectl-curfew/convert/draft.go",
		Old:  "d.condition(name, \"false\")", New: "_ = name",
		Package: converts, Tests: []string{"TestConditionsThatAreNotConverted"},
	},
	{
		Invariant: "S6", Name: "a policy that is converted in part is not suspended",
		File: "cmd/kubectl-curfew/convert/draft.go",
		Old:  "func(f Finding) bool { return f.Lost })\n\tpolicy,", New: "func(f Finding) bool { return false })\n\tpolicy,",
		Package: converts, Tests: []string{"TestMatchesThatAreNotConverted"},
	},
	{
		Invariant: "S6", Name: "a converted rule deletes what an earlier one keeps longer",
		File: "cmd/kubectl-curfew/convert/janitor.go",
		Old:  "if !overlap(rule.Resources, later.Resources) ||", New: "if true ||",
		Package: converts, Tests: []string{"TestJanitorFirstRuleDecides"},
	},
	{
		Invariant: "S6", Name: "a converted policy deletes a kind that Kyverno does not match by case",
		File: "cmd/kubectl-curfew/convert/kinds.go",
		Old:  "if reason = noKind(group, kind); reason != \"\" {", New: "if false {",
		Package: converts, Tests: []string{"TestKindSelectors"},
	},
	{
		Invariant: "S6", Name: "a converted policy deletes all kinds where Kyverno lists none by a wildcard",
		File: "cmd/kubectl-curfew/convert/filter.go",
		Old:  "if slices.Contains(one.Resources, \"*\") {", New: "if false {",
		Package: converts, Tests: []string{"TestKindSelectors"},
	},
}
