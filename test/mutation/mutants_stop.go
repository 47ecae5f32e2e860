package main

// stops break what a deadline stops below an object.
var stops = []Mutant{
	{
		Invariant: "S1", Name: "a deadline deletes a Pod without looking whether it is protected by now",
		File: "controller/action/stop/child.go",
		Old:  " || spared(now)", New: " || now.DeletionTimestamp != nil",
		Package: deadlines, Tests: []string{"TestPodIsReadBeforeItIsDeleted"},
	},
	{
		Invariant: "S2", Name: "a deadline deletes a Pod that another object controls by now",
		File: "controller/action/stop/child.go",
		Old:  " || !sameController(now, object)", New: "",
		Package: deadlines, Tests: []string{"TestPodIsReadBeforeItIsDeleted"},
	},
	{
		Invariant: "S4", Name: "a protected child is failed",
		File: "controller/action/stop/child.go",
		Old:  "failed || spared(child)", New: "failed || child.GetDeletionTimestamp() != nil",
		Package: deadlines, Tests: []string{"TestProtectedChildIsNotMarked"},
	},
	{
		Invariant: "S3", Name: "an owner is known by its UID alone",
		File: "controller/action/stop/pods.go",
		Old:  "ownerKey{namespace, owner.APIVersion, owner.Kind, owner.Name, owner.UID}", New: "ownerKey{uid: owner.UID}",
		Package: deadlines, Tests: []string{"TestOwnersAreKnownByTheirWholeReference"},
	},
	{
		Invariant: "S4", Name: "a status that says DeadlineExceeded is enough to delete the children",
		File: "policy/judging/deadline.go",
		Old:  "\tcase !value.Set:\n", New: "\tcase exceeded:\n\t\treturn deadlineVerdict(facts.Exceeded, policy.TriggerDeadlineCheck, effective, now)\n\tcase !value.Set:\n",
		Package: "policy/judging", Tests: []string{"TestJudgeDeadline"},
	},
	{
		Invariant: "S6", Name: "an author's suspension counts as Curfew's",
		File: "policy/verdict.go",
		Old:  "if err != nil || of != strconv.FormatInt(generation, 10) {", New: "if err != nil || of == strconv.Itoa(0) {",
		Package: "policy/judging", Tests: []string{"TestSuspendedAt"},
	},
}
