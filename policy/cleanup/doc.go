// Package cleanup decides what a cleanup policy deletes. It is pure: the controller, the preview
// and the tests call it with what they have read.
//
// [Compile] turns a CleanupPolicy or ClusterCleanupPolicy into a [Policy], or says why it cannot be
// used. [Policy.Targets] chooses the resources to list, and [Policy.Judge] decides about one object
// (judge.go): not matched, matched but kept for a reason, or to be deleted. [Newest] is what
// keepNewest keeps, [Matches] are how often objects have matched for consecutiveRuns and
// since when for minUnused, and
// [Policy.Allowance] is what maxDeletions and maxPercentage allow.
//
// Anything that cannot be read keeps the object (S6): an expression that fails, a lookup without an
// answer, a namespace that is not known.
package cleanup
