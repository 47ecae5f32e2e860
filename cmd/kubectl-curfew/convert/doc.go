// Package convert turns the policies of other cleanup tools into Curfew's: Kyverno's
// DeletingPolicy, NamespacedDeletingPolicy, CleanupPolicy and ClusterCleanupPolicy, k8s-cleaner's
// Cleaner, and the rules file of kube-janitor.
//
// [Sources] reads the documents of all files (documents.go), with settings that restrict the policies
// of every file, such as Kyverno's resourceFilters (skipped.go). Then each policy becomes a draft
// (draft.go), which collects the fields of the new policy and, as a [Finding],
// everything that could not be converted. A draft with such a finding is written suspended, with a
// condition that is false: a restriction that is dropped silently would delete more than before.
//
// JMESPath (jmespath.go) is translated to CEL by translate.go. The translation keeps the object
// where the two differ. [Command] is kubectl curfew convert.
package convert
