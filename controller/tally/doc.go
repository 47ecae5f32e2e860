// Package tally counts the Pods of PodTallies, exactly, whatever crashes (S7, KEP-2307).
//
// [Controller] follows PodTallies and watches the Pods of the namespaces that have some
// (follow.go). A space (space.go) is such a namespace: a state machine that keeps little of each
// Pod and sends no request. Its plan (plan.go) is what a tally needs next, and round (round.go)
// carries that out:
//
//  1. The status lists the UIDs of finished Pods. In the same write, those of an earlier round that
//     are through move into the counters.
//  2. Each listed Pod loses its finalizer and gets the annotation curfew.dev/counted-by, in one
//     patch (requests.go). All tallies share one pool of requests (pool.go), in turn.
//  3. A Pod without the finalizer and with the annotation, or gone, is through.
//
// Before a process counts in a namespace it raises status.transitions of all tallies: no other
// process can write their statuses after that. A Pod is listed only if its finalizer was seen later
// than that, in a list that no cache served or in the answer to a request: else another process
// might have counted it. A write whose answer was lost is repeated until its outcome is known
// (status.go). What the watch shows late never replaces what a request has shown.
//
// A Pod that Curfew deletes before it has finished is released first, with counted-by: nobody
// (disown.go). If it is not deleted after all, its tally adopts it again.
//
// Pods with the finalizer that no tally matches are released: in namespaces that are watched at
// once, elsewhere by a search (left.go, sweep.go), which also removes all finalizers where tallies
// are switched off. In listed namespaces nothing is counted, and there is only the search.
package tally
