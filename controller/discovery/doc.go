// Package discovery finds the kinds whose objects are watched.
//
// [Profiles] has a feed for each kind that is served as its profile says (profiles.go). When a
// profile changes, the deletions of its kind are on hold until a feed with the new rules has
// started.
//
// [Labels] finds the kinds whose objects may carry a TTL label, and where Curfew may delete them.
// It knows custom kinds from their definitions, and all others from discovery (kinds.go). It asks
// again which kinds are served and permitted when an event says that this may have changed, and
// every few minutes for changes without an event (labels.go). It reports kinds whose labels have no
// effect (labels.go).
//
// Both pass the feeds that should run to a [feedset.Set].
package discovery
