// Package tally counts the Pods of PodTallies, exactly, through any crash (S7, KEP-2307).
//
// [Controller] follows PodTallies and watches the Pods of their namespaces (follow.go). Each such
// namespace has a space (space.go): a state machine that keeps little of each Pod and sends no
// request. Its plan (plan.go) is the next step of a tally, and round (round.go) carries it out:
//
//  1. The status lists the UIDs of finished Pods. In the same write, the UIDs of an earlier round
//     that are through move into the counters.
//  2. Each listed Pod loses its finalizer and gets the annotation curfew.dev/counted-by, in one
//     patch (pod.go). The requests of one tally, and those of all, have a limit (send.go).
//  3. A Pod without the finalizer and with the annotation, or gone, is through.
//
// Before a process counts in a namespace it raises status.transitions of all tallies: no other
// process can write their statuses after that. A process lists a Pod in a status only if it saw the
// Pod's finalizer later than that, in a list that no cache served or in the answer to a request.
// Otherwise another process might have counted the Pod. A write whose answer was lost is repeated
// until its outcome is known (round.go). A late event of the watch never replaces the answer to a
// request.
//
// Before Curfew deletes an unfinished Pod, it releases the Pod with wellknown.CountedByNone
// (disown.go). If the Pod survives, its tally adopts it again.
//
// Pods with the finalizer that no tally matches are released: at once in watched namespaces,
// elsewhere by a search (sweep.go), which also removes all finalizers where tallies are
// switched off.
package tally
