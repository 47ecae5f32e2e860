// Package stop fails and stops what has been active for too long, where the kind's own controller does not, or did not.
//
// It is what the engine of package expiry asks instead of a DELETE, in a lane of its own: a feed judges each object by
// policy.JudgeDeadline and tells the [Stopper] in which state it saw it (stopper.go). When the deadline is due, the engine calls
// [Stopper.Delete], which carries out the steps of the kind's profile (KindProfile.spec.deadline.enforcement.stop), in their order:
// MarkFailed writes the condition Failed with reason DeadlineExceeded (mark.go), Suspend sets the kind's field, Delete deletes a
// child (child.go), DeletePods what still runs (pods.go). A step that holds already costs a look.
//
// Nothing of that is remembered. Other controllers write whole lists of conditions without a lock, re-create children, and lose
// deletions; so a marked object is looked at again, for [Options.Settle] after the mark, until every step holds, and an object whose
// mark was taken away is active and past its deadline again, which the feed sees and the engine acts upon.
package stop
