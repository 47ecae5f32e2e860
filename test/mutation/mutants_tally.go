package main

const tallies = "controller/tally"

// ofTally break the exact counts of PodTallies.
var ofTally = []Mutant{
	{
		Invariant: "S7", Name: "a 404 for the list of PodTallies counts as their absence",
		File: "controller/tally/controller.go",
		Old:  "defined, unsure := c.options.Cluster.Defined(ctx)", New: "defined, unsure := false, error(nil)",
		Package: tallies, Tests: []string{"TestNotFoundReleasesNothing"},
	},
	{
		Invariant: "S7", Name: "a CustomResourceDefinition that cannot be read counts as absent",
		File: "controller/tally/controller.go",
		Old:  "case unsure != nil:", New: "case unsure != nil && defined:",
		Package: tallies, Tests: []string{"TestNotFoundReleasesNothing"},
	},
	{
		Invariant: "S7", Name: "a Pod that may still finish counts as failed because its Node is not ready",
		File: "controller/tally/round.go",
		Old:  "state == NodeNotReady && p.forced", New: "state == NodeNotReady",
		Package: tallies, Tests: []string{"TestPodsThatRunNoMore"},
	},
	{
		Invariant: "S9", Name: "all PodTallies of a namespace count",
		File: "policy/tally/tally.go",
		Old:  "min(len(counting), MaxPerNamespace)", New: "len(counting)",
		Package: tallies, Tests: []string{"TestTooManyTallies"},
	},
	{
		Invariant: "S9", Name: "PodTallies that are gone are not forgotten",
		File: "controller/tally/follow.go",
		Old:  "			delete(c.work, key)\n		}\n	}\n}\n\n", New: "		}\n	}\n}\n\n",
		Package: tallies, Tests: []string{"TestWorkIsForgotten"},
	},
	{
		Invariant: "S7", Name: "an event from before a request has a Pod counted again",
		File: "controller/tally/space.go",
		Old:  "known.removed || p.version < known.version", New: "known.removed",
		Package: tallies, Tests: []string{"TestStaleEvents"},
	},
	{
		Invariant: "S7", Name: "an event from before a Pod was found to be gone has it counted again",
		File: "controller/tally/space.go",
		Old:  "known.removed || p.version < known.version", New: "p.version < known.version",
		Package: tallies, Tests: []string{"TestStaleEvents"},
	},
	{
		Invariant: "S7", Name: "a Pod is counted before its finalizer is removed",
		File: "controller/tally/pod.go",
		Old:  "return p == nil || p.removed || !p.held && p.counted }", New: "return true }",
		Package: tallies, Tests: []string{"TestCrashes"},
	},
	{
		Invariant: "S7", Name: "a Pod that was counted is adopted again",
		File: "controller/tally/pod.go",
		Old:  "case p.counted || p.keeper == nil:", New: "case p.keeper == nil:",
		Package: tallies, Tests: []string{"TestCrashes"},
	},
	{
		Invariant: "S7", Name: "a Pod that Curfew deletes is counted as failed",
		File: "controller/tally/pod.go",
		Old:  "p.running() && p.deleting.IsZero()", New: "false",
		Package: tallies, Tests: []string{"TestDisowning"},
	},
	{
		Invariant: "S7", Name: "a Pod that Curfew could not delete is never counted",
		File: "controller/tally/disown.go",
		Old:  "w.undeleted(due.UID)\n", New: "_ = w\n",
		Package: tallies, Tests: []string{"TestDeletionFails"},
	},
	{
		Invariant: "S7", Name: "a Pod that Curfew was killed deleting is never counted",
		File: "controller/tally/pod.go",
		Old:  "p.counted = marked && !p.released", New: "p.counted = marked",
		Package: tallies, Tests: []string{"TestDeletionFails"},
	},
	{
		Invariant: "S7", Name: "a namespace with many PodTallies delays all others",
		File: "controller/tally/controller.go",
		Old:  "recheck, namespaceOf)", New: "recheck, func(string) string { return \"\" })",
		Package: tallies, Tests: []string{"TestSmallTalliesAreNotStarved"},
	},
	{
		Invariant: "S5", Name: "all finalizers of a Pod are removed, not only that of tallies",
		File: "controller/tally/pod.go",
		Old:  "`json:\"$deleteFromPrimitiveList/finalizers,omitempty\"`", New: "`json:\"finalizers-,omitempty\"`",
		Package: tallies, Tests: []string{"TestPatches"},
	},
	{
		Invariant: "S2", Name: "a Pod that was created again under the name is patched",
		File: "controller/tally/pod.go",
		Old:  "`json:\"uid\"`", New: "`json:\"-\"`",
		Package: tallies, Tests: []string{"TestPatches"},
	},
	{
		Invariant: "S7", Name: "two processes count a Pod that moves to another tally",
		File: "controller/tally/round.go",
		Old:  "t.status.Transitions++", New: "",
		Package: tallies, Tests: []string{"TestTwoLeaders"},
	},
	{
		Invariant: "S7", Name: "a Pod of a tally that is new is released",
		File: "controller/tally/round.go",
		Old:  "if !s.knows(live) {", New: "if !s.knows(live) && false {",
		Package: tallies, Tests: []string{"TestUnheardOfTally"},
	},
	{
		Invariant: "S7", Name: "a Pod is released by labels that it no longer has",
		File: "controller/tally/pod.go",
		Old:  "case p.removed || p.unsure:", New: "case p.removed:",
		Package: tallies, Tests: []string{"TestStaleLabels"},
	},
}
