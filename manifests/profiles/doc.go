// Package profiles holds the KindProfiles that come with Curfew, one file a kind, in the same
// schema as those that users write. They are part of every binary, so that no object in the cluster
// is needed for them, and the command line has them offline.
//
// A built-in kind is one file. make generate derives the kustomization and the ClusterRole of the
// controller from it.
//
// Each file names the module and version that it was read off. The Go readers of package policy
// answer for Jobs and Pods as job.yaml and pod.yaml do; a property test in policy/expression holds
// them together.
package profiles
