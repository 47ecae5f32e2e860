// Package notice tells the sources of deletions, which are Namespaces and LifecyclePolicies, what concerns them.
//
// [Digests] writes what was deleted on behalf of a source: one Event a source, patched with each summary of the engine, never one a
// deletion. [Pauses] writes that deletions of a source are paused and go on: a condition on the source (Paused on a LifecyclePolicy,
// curfew.dev/Paused on a Namespace) and an Event. [Marks] writes one Event on each object that was failed for its
// deadline, behind the marks themselves. All take what they are told without blocking who says it, and write in loops of their own; what they
// write is for people, and no decision of Curfew's hangs on it.
package notice
