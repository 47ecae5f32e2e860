package main

const feedsets = "controller/feedset"

// handovers break what one feed of a kind leaves to the next.
var handovers = []Mutant{
	{
		Invariant: "S1", Name: "a feed begins before the one that it replaces has ended",
		File: "controller/feedset/set.go",
		Old:  "\tfor _, done := range r.after {\n\t\t<-done\n\t}\n", New: "",
		Package: feedsets, Tests: []string{"TestSuccessorTakesOver", "TestLabelsAreForgottenFirst"},
	},
	{
		Invariant: "S1", Name: "deletions go on while a feed is replaced",
		File: "controller/feedset/set.go",
		Old:  "s.hold(key, true) // until", New: "// until",
		Package: feedsets, Tests: []string{"TestSuccessorTakesOver"},
	},
	{
		Invariant: "S6", Name: "a feed with outdated rules releases its kind",
		File: "controller/feedset/set.go",
		Old:  "s.hold(r.spec.Key, r.spec.Purpose == Finish && s.changes[r.spec.Kind.GroupKind()] > 0)", New: "s.hold(r.spec.Key, false)",
		Package: "controller/discovery", Tests: []string{"TestProfileChangesWhileAFeedStarts"},
	},
	{
		Invariant: "S3", Name: "what a feed tracked is forgotten although its successor judges it",
		File: "controller/feedset/set.go",
		Old:  " || successor != nil && successor.spec.inherits(r.spec)", New: "",
		Package: feedsets, Tests: []string{"TestSuccessorTakesOver"},
	},
	{
		Invariant: "S6", Name: "an object that no feed judges any more stays tracked",
		File: "controller/feedset/set.go",
		Old:  "\tfor _, handle := range s.tracked[r.spec.Key] {\n\t\ts.options.Tracker.ForgetKind(handle)\n\t}\n", New: "",
		Package: feedsets, Tests: []string{"TestLabelsAreForgottenFirst", "TestSuccessorTakesOver"},
	},
}
