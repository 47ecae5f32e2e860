package main

// ofTallyAdmission break which Pods get the finalizer of a PodTally, and when they are sent.
var ofTallyAdmission = []Mutant{
	{
		Invariant: "S5", Name: "a PodTally holds the Pods of Jobs",
		File: "policy/tally/tally.go",
		Old:  "case pod.OwnedByJob(), pod.Uncounted():", New: "case pod.Uncounted():",
		Package: "policy/tally", Tests: []string{"TestExempt"},
	},
	{
		Invariant: "S7", Name: "the younger of two PodTallies counts a Pod",
		File: "policy/tally/tally.go",
		Old:  "return t.Created.Before(other.Created)", New: "return t.Created.After(other.Created)",
		Package: "policy/tally", Tests: []string{"TestOwner"},
	},
	{
		Invariant: "S5", Name: "admission removes finalizers of others",
		File: "webhook/source.go",
		Old:  "if finalizer != wellknown.FinalizerTally {", New: "if finalizer == \"\" {",
		Package: "webhook", Tests: []string{"TestHold"},
	},
	{
		Invariant: "S7", Name: "a copy of a counted Pod is never counted",
		File: "webhook/source.go",
		Old:  "wellknown.AnnotationCountedBy]; copied {", New: "wellknown.AnnotationCountedBy]; copied && tally.Held(pod) {",
		Package: "webhook", Tests: []string{"TestHold"},
	},
	{
		Invariant: "S7", Name: "the label by which Pods are sent is removed before all PodTallies are known",
		File: "controller/follow/stamps.go",
		Old:  "return labelled, err", New: "return false, err",
		Package: "controller/follow", Tests: []string{"TestStampTallied"},
	},
}
