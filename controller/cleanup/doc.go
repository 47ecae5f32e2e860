// Package cleanup runs cleanup policies.
//
// [Controller] follows CleanupPolicies and ClusterCleanupPolicies (policies.go) and starts a run
// when one is due (step.go). A run (run.go) lists what the policy matches, page by page, as the
// policy's service account (account.go): package survey finds what is to be deleted. That goes to
// the engine in batches, as its lowest priority, and comes back as outcomes (batch.go).
//
// The counts are exact whatever crashes (S7), because a run writes down what it is about to do
// (ledger.go): first a report page with the objects of a batch, then status.uncountedDeletions with
// their UIDs. Only then it deletes. When all outcomes are known it writes them on the page, and
// then moves the UIDs into the counters, in one status write. After a crash, the next leader reads
// the objects on the page: what is gone or being deleted is counted, and anything else is judged
// and deleted again.
//
// With consecutiveRuns a run also leaves which objects have matched (matches.go): on pages first,
// which the write that ends the run names. The next run counts on from them.
//
// Any failure ends a run just like a crash, and it is resumed after a while. There is one way back,
// and tests walk it from every request of a run.
package cleanup
