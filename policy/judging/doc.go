// Package judging decides whether and when Curfew deletes or stops an object.
//
// [Judge] applies the TTL after finished, [JudgeLabel] the TTL label, [JudgeDeadline] the deadline.
// Each returns a policy.Verdict for exactly the state in the facts. [Explanation.Obstacles] lists
// what blocks an object, a [Pause] holds deletions, and [Protects] covers protected namespaces.
// [Explain] collects all of it for people. [Triggers] lists all triggers (triggers.go), for the
// controller and the command line; cmd/curfew has the actions.
package judging
