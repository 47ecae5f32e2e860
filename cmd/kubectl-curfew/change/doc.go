// Package change works out what has to be written into an object so that it goes later, now, or not at all.
//
// [Extend], [ExpireNow] and [Cancel] look at an explanation (package policy) and answer with a [Plan]: a merge patch that touches the
// place where the value stands that decides, and no other. The plan is then tried: the patched object is explained and reviewed anew, by
// the code that decides in the cluster, so that what is shown as the outcome is not a second opinion. Nothing is read or written here.
package change
