// Package invariants judges what Curfew did by its safety invariants, S1 to S12 (docs/design.md),
// as far as an observer outside can see them.
//
// It knows nothing of Curfew's code. A [Judge] reads a log of requests and writes ([Record]) and
// computes again, from the objects and from the rules that were in effect, whether each object was
// due. Three tests feed it: the soak (test/soak) from etcd and the audit log of a real API server,
// TestWorld (cmd/curfew) from the cluster in memory of package world, and TestSafety
// (controller/expire) from the histories of its model.
//
// It knows the part of the contract that the tests use: TTLs of objects, by outcome and in native
// fields, defaults and modes of Namespaces, default TTLs of LifecyclePolicies, KindProfiles that
// name fields, TTL labels, cleanup policies by name, tallies, deadlines, pauses. S9 is about
// reviews, which are not in the log.
package invariants
