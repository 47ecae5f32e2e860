// Package stop fails and stops objects that were active for too long, where the kind's own
// controller does not, or did not.
//
// It is the action of deadlines. A feed judges each object by judging.JudgeDeadline and passes a
// [Payload] to the action (stop.go). When the deadline is due, [Action.Do] carries out the
// steps of the kind's profile (KindProfile.spec.deadline.enforcement.stop), in their order:
// MarkFailed writes the condition Failed with reason DeadlineExceeded (mark.go), Suspend sets the
// kind's field, Delete deletes a child (child.go), and DeletePods deletes the Pods that still run
// (pods.go). Repeating a step that holds already costs one read.
//
// The action keeps no state. Other controllers write whole lists of conditions without a lock,
// re-create children, and lose deletions. So Curfew checks a marked object again, for
// [Options.Settle] after the mark, until every step holds. If another controller removes the mark,
// the object is active and past its deadline again: the feed sees that and the engine acts on it.
package stop
