package main

// ofRules let deletions rest on rules that were not confirmed.
var ofRules = []Mutant{
	{
		Invariant: "S12", Name: "a request rests on rules of any age",
		File: "controller/pause/gate.go",
		Old:  "Age(now, m.confirmed) >= MaxRules", New: "Age(now, m.confirmed) >= 1000*MaxRules",
		Package: pausing, Tests: []string{"TestRules"},
	},
	{
		Invariant: "S12", Name: "work begins while no rules are confirmed",
		File: "controller/engine/dispatch.go",
		Old:  "e.opts.Rules.Confirmed()) < pause.MaxRules", New: "e.opts.Rules.Confirmed()) < 1000*pause.MaxRules",
		Package: "controller/feed", Tests: []string{"TestUnconfirmed"},
	},
	{
		Invariant: "S12", Name: "a LIST confirms the rules although the copy lacks what it shows",
		File: "controller/follow/confirm.go",
		Old:  "for key := k.versions.lacks(read); key != \"\";", New: "for key := k.versions.lacks(read); key == \"-\";",
		Package: "controller/feed", Tests: []string{"TestSilentWatch"},
	},
	{
		Invariant: "S12", Name: "a watch that begins again brings back older rules",
		File: "controller/follow/namespaces.go",
		Old:  "return version < floor", New: "return version < 0*floor",
		Package: "controller/follow", Tests: []string{"TestStaleWatchAfterAList"},
	},
	{
		Invariant: "S3", Name: "rules that change all the time hold an object for ever",
		File: "controller/engine/attempt.go",
		Old:  "for round := 0; round < maxRounds &&", New: "for round := 0; round < 0 &&",
		Package: "controller/engine", Tests: []string{"TestFloor"},
	},
	{
		Invariant: "S3", Name: "rules that change all the time have a cleanup run keep its objects",
		File: "controller/cleanup/attempts.go",
		Old:  "return err == nil && cached.Verdict == cleanup.Delete &&", New: "return err != nil && cached.Verdict == cleanup.Delete &&",
		Package: cleans, Tests: []string{"TestFloor"},
	},
	{
		Invariant: "S3", Name: "a cleanup run sends nothing while it confirms that it may delete",
		File: "controller/cleanup/gates.go",
		Old:  "renewAfter   = confirmedFor / 2", New: "renewAfter   = confirmedFor",
		Package: cleans, Tests: []string{"TestFloor"},
	},
	{
		Invariant: "S3", Name: "a long Retry-After stops all deletions",
		File: "controller/engine/queue.go",
		Old:  "\tif r.mono >= w.to {\n\t\tw.next = r.mono + minRetry\n\t}\n", New: "\tw.next = r.mono + after\n",
		Package: engine, Tests: []string{"TestFloor", "TestRetryAfterPausesEverything"},
	},
	{
		Invariant: "S7", Name: "a process that leads no more overwrites a report page",
		File: "controller/cleanup/ledger.go",
		Old:  "\treturn l.store.owned(ctx)\n", New: "\treturn nil\n",
		Package: cleans, Tests: []string{"TestPagesAreReplaced"},
	},
	{
		Invariant: "S12", Name: "a Namespace that was deleted before a watch began again is never forgotten",
		File: "controller/follow/confirm.go",
		Old:  "\t\tn.settle(read)\n", New: "",
		Package: "controller/follow", Tests: []string{"TestDeletedBeforeTheWatchBeginsAgain"},
	},
}
