// Package registry keeps the feeds of kinds with a profile in step with profiles and CustomResourceDefinitions.
//
// A [Registry] (registry.go) puts the profiles that come with Curfew and those of the cluster (profiles.go) beside the
// CustomResourceDefinitions (kinds.go), and passes the feeds that should run to a feedset.Set. It follows the runtimes that those kinds
// refer to (follow.go). When a profile changes, the deletions of its kind are on hold until a feed with the new rules has started.
//
// For profiles, CustomResourceDefinitions alone say which kinds are served: the kinds that are built into the API server have typed
// feeds, and those of aggregated API servers have none.
package registry
