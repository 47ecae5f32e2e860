// Package change plans how to make an object expire later, now, or not at all.
//
// [Extend], [ExpireNow] and [Keep] read an explanation (package policy) and return a [Plan]: a
// merge patch of the one value that decides. The plan is tried on a copy of the object, which the
// code of the cluster explains and reviews, so that the preview is what will happen. These
// functions read and write nothing. The commands extend, expire-now and keep (command.go) plan each
// object, ask, and write the patches (run.go).
package change
