// Package discovery finds the kinds whose objects are watched, and runs a feed for each.
//
// [Profiles] has a feed for each kind that is served as its profile says (profiles.go). [Labels]
// finds the kinds whose objects may carry a TTL label, and where Curfew may delete them. It knows
// custom kinds from their definitions, and all others from discovery (kinds.go). It asks again which
// kinds are served and permitted when an event says that this may have changed, and every few
// minutes for changes without an event. It reports kinds whose labels have no effect (labels.go).
//
// Both are a [Source] of feeds: they pass the list of [Spec] that should run to [Set.Apply] whenever
// it changes. A trigger with feeds of its own brings a Source of its own. The [Set] starts, stops
// and replaces feeds (set.go). A feed waits until Curfew has the permissions that it needs (spec.go)
// and until the feeds that it replaces have ended: no two feeds of one kind pass the same object to
// the engine. When a feed ends, the engine forgets the objects that the feed tracked, unless its
// successor judges all of them again. While the rules of a kind have changed and no feed knows the
// new ones yet, the deletions of that kind are on hold.
package discovery
