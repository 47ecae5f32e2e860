// Package invariants judges the history of a cluster in memory (package world) by the safety
// invariants of Curfew, S1 to S12 (docs/design.md).
//
// It knows nothing of Curfew's code. A [Judge] reads the accepted writes, and computes again, from
// the objects and from the rules of the last 15 seconds before a DELETE, whether the object was due.
// It knows the part of the contract that the tests use: TTLs in seconds, minutes and hours, defaults
// and modes of Namespaces, default TTLs of LifecyclePolicies, TTL labels, cleanup policies by name,
// tallies, deadlines, pauses. S9 is about reviews, which are not in a history.
package invariants
