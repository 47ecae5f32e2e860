// Package rules holds what admission refuses and warns about, one rule a file.
//
// A [Request] is turned into subjects: the object itself, and each template of another object inside it. Every rule of
// the registry (registry.go) looks at one subject at a time and says what is wrong with it as it stands. [Review] runs
// them; on UPDATE it runs them on the old object as well and drops what stood there before, so that a rule refuses only
// what the request changes and needs no code for that. Rules about the change itself have a Transition instead.
package rules
