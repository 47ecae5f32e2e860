package main

// ofRuntimes break since when the TTL of a runtime applies.
var ofRuntimes = []Mutant{
	{
		Invariant: "S6", Name: "a runtime's TTL reaches what finished before it",
		File: "policy/resolution/value.go",
		Old:  "if at = w.facts.FinishTime; at.IsZero() {", New: "if at = w.facts.FinishTime; true {",
		Package: decides, Tests: []string{"TestRuntimeTTLReachesWhatFinishesLater"},
	},
	{
		Invariant: "S6", Name: "a runtime's stamp counts for another TTL",
		File: "policy/resolution/runtime.go",
		Old:  "if !ok || hash != RuntimeHash(runtime, fields) {", New: "if !ok || hash == \"\" {",
		Package: decides, Tests: []string{"TestReadSince"},
	},
	{
		Invariant: "S6", Name: "the author of a runtime says since when it has its TTL",
		File: "webhook/source.go",
		Old:  "before = request.oldFacts.Annotations[wellknown.AnnotationDefaultSince]", New: "before = present",
		Package: admits, Tests: []string{"TestStampRuntime"},
	},
}
