// Package registry keeps what the controller watches in step with what it is to watch: policies, profiles, kinds, runtimes.
//
// A [Registry] (registry.go) puts the profiles that come with Curfew and those of the cluster (profiles.go) beside the CustomResourceDefinitions
// (kinds.go), and starts and stops one feed for each kind that has both (kind.go), once Curfew may list, watch, read and delete
// there. It follows the runtimes that those kinds refer to (follow.go).
//
// For profiles, CustomResourceDefinitions alone say which kinds are served: those that are built into the API server have feeds of
// their own, and kinds of aggregated API servers none.
//
// When a profile changes, the deletions of its kind are held until a feed that knows the change has started (hold.go).
//
// [Labels] (labels.go, label_feed.go) keeps a feed of labelled objects for every kind at all: custom ones by their definitions, all
// others by discovery (labelable.go), where it is permitted (grants.go), everywhere or in single namespaces. The roles that are
// bound to Curfew (bindings.go) tell when to ask anew.
package registry
