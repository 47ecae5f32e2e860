// Package expression turns what LifecyclePolicies and KindProfiles say into what package policy understands. The language is
// CEL in the environment of the API server's own ValidatingAdmissionPolicies: the same libraries, the same cost model.
//
// A [Compiler] compiles each expression once (environment.go, compile.go) and remembers the program, or why there is none, in a
// bounded cache (cache.go). [Compiler.Profile] makes a [Profile] of a KindProfile: field paths, and a state function that
// evaluates its expressions. [Compiler.Policy] makes a [Policy] of a LifecyclePolicy, which [Policy.For] asks what it says about
// one object. Both return what can be used together with a list of what cannot, field by field, with line and column.
//
// An expression that fails while it runs (no such key, cost limit, interrupted, wrong type of result) yields an error and never
// a value: a state that cannot be told keeps its object, a default that cannot be computed is a [policy.Setting] with Err, a
// policy whose conditions cannot be told keeps what it might have spoken of (S6), and nobody is refused for any of it.
//
// Nothing here reads a clock, a client or a log. Time limits come in as the context of a call, the present as variable now.
package expression
