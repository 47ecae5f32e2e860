// Package rules holds the rules by which admission denies and warns, one rule a file. A new rule is
// one file and its line in the registry (registry.go).
//
// A [Request] is split into subjects: the object itself, and each template of another object inside
// it. Every rule checks one subject at a time, as it stands. [Review] runs them. On UPDATE it also
// runs them on the old object and drops the findings that were there before, so that a rule denies
// only what the request changes and needs no code for that. Rules about the change itself have a
// Transition instead.
//
// Each rule declares its fields (fields.go). A test in package manifests violates it in each of
// them, and fails if the match conditions would not send the object to the webhook. It has a value
// for each field: add one for a field that no rule had before.
package rules
