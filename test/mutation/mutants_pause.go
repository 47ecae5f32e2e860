package main

const pausing = "controller/pause"

// ofPauses break the emergency stop.
var ofPauses = []Mutant{
	{
		Invariant: "S11", Name: "the age of a read counts from its answer",
		File: "controller/pause/read.go",
		Old:  "if g.answer(sent, pauses, err) {", New: "if g.answer(g.options.Clock.Now(), pauses, err) {",
		Package: pausing, Tests: []string{"TestAge"},
	},
	{
		Invariant: "S11", Name: "a missing CRD of DeletionPauses is no pause",
		File: "controller/pause/read.go",
		Old:  "case code == http.StatusNotFound:\n\t\t\treturn nil, fmt.Errorf(\"CustomResourceDefinition", New: "case code == http.StatusNotFound:\n\t\t\treturn nil, nil\n\t\tcase code < 0:\n\t\t\treturn nil, fmt.Errorf(\"CustomResourceDefinition",
		Package: pausing, Tests: []string{"TestUnreadable"},
	},
	{
		Invariant: "S11", Name: "a stop ignores the pause unless it deletes",
		File: "controller/pause/gate.go",
		Old:  "\tif mark == nil {\n\t\treturn next", New: "\tif mark == nil || r.Method != http.MethodDelete {\n\t\treturn next",
		Package: pausing, Tests: []string{"TestTransport"},
	},
	{
		Invariant: "S11", Name: "a pause that is accepted while a connection is made is not seen",
		File: "controller/pause/gate.go",
		Old:  "!known || mark.in(&view) {", New: "!known && mark.in(&view) {",
		Package: pausing, Tests: []string{"TestHeldWhileConnecting"},
	},
	{
		Invariant: "S11", Name: "pauses that cannot be read hold nothing",
		File: "controller/pause/gate.go",
		Old:  "if v.Unread != \"\" {\n\t\treturn true", New: "if v.Unread != \"\" {\n\t\treturn false",
		Package: pausing, Tests: []string{"TestUnreadable", "TestSafetyNothingWhilePaused"},
	},
	{
		Invariant: "S3", Name: "what a pause held is not looked at when it ends",
		File: "controller/engine/recheck.go",
		Old:  "if parked {", New: "if parked && now < 0 {",
		Package: pausing, Tests: []string{"TestHeldCostsNothing"},
	},
	{
		Invariant: "S3", Name: "a cleanup run gives up because of a pause",
		File: "controller/cleanup/batch.go",
		Old:  "case b.held(left):", New: "case b.held(nil):",
		Package: cleans, Tests: []string{"TestHeldRun"},
	},
	{
		Invariant: "S3", Name: "a pause of a namespace holds a cleanup run everywhere",
		File: "controller/cleanup/batch.go",
		Old:  "if b.postpone(ctx, left) {", New: "if b.postpone(ctx, nil) {",
		Package: cleans, Tests: []string{"TestPauseOfOneNamespace"},
	},
	{
		Invariant: "S3", Name: "a cleanup run forgets objects that a pause held",
		File: "controller/cleanup/gates.go",
		Old:  "return errMoreHeld", New: "return nil",
		Package: cleans, Tests: []string{"TestPauseOfOneNamespace"},
	},
	{
		Invariant: "S11", Name: "a run whose status claims a pause has no starting deadline",
		File: "controller/cleanup/resume.go",
		Old:  "!c.stillPaused(ctx, cur.policy, status)", New: "!paused(status)",
		Package: cleans, Tests: []string{"TestForgedPause"},
	},
}
