// Package feedset starts, stops and replaces feeds, so that each kind is watched by exactly the
// feeds that it needs.
//
// Each [Source] knows a part of the feeds that should run, as a list of [Spec], and passes it to
// [Set.Apply] whenever it changes: the typed kinds, the kinds with a profile, and the kinds that
// may carry a TTL label. A trigger with feeds of its own brings a Source of its own. The [Set] does
// the rest (set.go). A feed waits until Curfew has the permissions that it needs (spec.go) and
// until the feeds that it replaces have ended (set.go): no two feeds of one kind pass the same
// object to the engine. When a feed ends, the engine forgets the objects that the feed tracked,
// unless its successor judges all of them again.
//
// While the rules of a kind have changed and no feed knows the new ones yet, the deletions of that
// kind are on hold (set.go).
package feedset
