// Package tally decides which Pods a PodTally counts. It is pure: admission, the controller and the
// command line call it with what they have read.
//
// [Compile] turns a PodTally into a [Tally], or returns errors. [Exempt] returns the reason why no
// tally ever counts a Pod, and [Owner] returns the tally that counts it. Admission and the
// controller both call these functions, so that they never disagree about a Pod.
//
// Counting is no deletion: a namespace in dry-run and a Pod annotated protect are counted as any
// other. Otherwise each use of dry-run would leave a gap in the counts (S7).
package tally
