// Package survey finds what a cleanup policy would delete. Runs of the controller and previews of
// the CLI share it, so that a preview shows what a run then does.
//
// [Survey.Open] finds what the policy's account may list (survey.go), [Survey.Count] goes over it
// once where a limit or keepNewest needs that, and [Survey.Choose] goes over it again and decides
// about each object (passes.go). Conditions may look up other objects (lookups.go). Everything is
// read through a [Reader], which has the rights of the account (S10).
package survey
