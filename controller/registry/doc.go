// Package registry keeps the feeds of kinds with a profile in step with profiles and
// CustomResourceDefinitions.
//
// A [Registry] (registry.go) passes a feed for each kind that follow.Platform knows to be served as
// its profile says to a feedset.Set. When a profile changes, the deletions of its kind are on hold
// until a feed with the new rules has started.
//
// For profiles, CustomResourceDefinitions alone say which kinds are served: the kinds that are
// built into the API server have typed feeds, and those of aggregated API servers have none.
package registry
