// Package cleanup runs cleanup policies.
//
// [Controller] follows CleanupPolicies and ClusterCleanupPolicies (controller.go) and starts a run
// when one is due (run.go). The run lists the matching objects, page by page, as the policy's
// service account (account.go): package survey finds the objects to delete. The run gives them to
// the engine in batches, as its lowest priority, and gets outcomes back (batch.go). Approvals,
// pauses and permissions hold it up (gates.go).
//
// The counts stay exact through any crash (S7), because a run announces each deletion (ledger.go):
// it first writes a report page with the objects of a batch, then their UIDs into
// status.uncountedDeletions. Only then it deletes. When all outcomes are known it writes them on
// the page, and then moves the UIDs into the counters, in one status write. After a crash, the next
// leader reads the objects on the page: it counts an object that is gone or being deleted, and
// judges and deletes the others again.
//
// With consecutiveRuns a run also records the objects that matched (state.go). It writes them on
// pages first, and the write that ends the run names these pages. The next run counts on from them.
//
// Any failure ends a run just like a crash, and the controller resumes it after a while
// (resume.go). There is one way back, and tests walk it from every request of a run.
package cleanup
