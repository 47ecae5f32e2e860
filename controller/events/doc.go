// Package events reports to the sources of deletions, which are Namespaces and LifecyclePolicies,
// and on objects that were failed.
//
// [Digests] writes the deletions that a source caused: one Event for each source, patched with each
// summary of the engine, never one for each deletion. [Pauses] writes that deletions of a source
// are paused or resumed: a condition (Paused on a LifecyclePolicy, curfew.dev/Paused on a
// Namespace) and an Event. [Failures] writes an Event on each object that was failed for its
// deadline.
//
// No caller waits for a write. No decision of Curfew depends on one.
package events
