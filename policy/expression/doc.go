// Package expression compiles LifecyclePolicies and KindProfiles into what package policy
// understands. The language is CEL in the environment of the API server's own
// ValidatingAdmissionPolicies: the same libraries, the same cost model.
//
// A [Compiler] compiles each expression once (environment.go, compile.go) and keeps the program, or
// the error, in a bounded cache. [Compiler.Profile] compiles a KindProfile into a
// [Profile]: field paths, and a state function that evaluates its expressions. [Compiler.Policy]
// compiles a LifecyclePolicy into a [Policy], and [Policy.For] evaluates it for one object. Both
// return a usable result together with a list of errors, field by field, with line and column.
//
// An expression that fails at run time (missing key, cost limit, interrupt, wrong type of result)
// yields an error and never a value. An object whose state cannot be read is kept, a default that
// cannot be computed is a [lifetime.Setting] with Err, and a policy whose conditions fail keeps
// every object that it might have matched (S6). No request is denied for any of it.
//
// Nothing here reads a clock, a client or a log. Time limits come in as the context of a call, the
// present as variable now.
package expression
