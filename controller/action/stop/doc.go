// Package stop fails and stops objects that were active for too long, where the kind's own
// controller does not, or did not.
//
// It is the action of deadlines. A feed judges each object by policy.JudgeDeadline and leaves a
// [State] of it as the payload (stop.go). When the deadline is due, [Action.Do] carries out the
// steps of the kind's profile (KindProfile.spec.deadline.enforcement.stop), in their order:
// MarkFailed writes the condition Failed with reason DeadlineExceeded (mark.go), Suspend sets the
// kind's field, Delete deletes a child (child.go), DeletePods what still runs (pods.go). A step
// that holds already costs a look.
//
// Nothing of that is remembered. Other controllers write whole lists of conditions without a lock,
// re-create children, and lose deletions; so a marked object is looked at again, for
// [Options.Settle] after the mark, until every step holds. An object whose mark was taken away is
// active and past its deadline again, which the feed sees and the engine acts on.
package stop
