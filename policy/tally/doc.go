// Package tally decides which Pods a PodTally counts. It is pure: admission, the controller and the
// command line call it with what they have read.
//
// [Compile] turns a PodTally into a [Tally], or says why it cannot be used. [Exempt] says why a Pod
// is never counted, [Owner] which of several tallies counts it, and [Adoptable] whether it may get
// the finalizer curfew.dev/tally now. Admission and the controller both ask these functions, so
// that they never disagree about a Pod.
//
// Counting is no deletion: a namespace in dry-run and a Pod annotated protect are counted as any
// other. Otherwise each use of dry-run would leave a gap in the counts (S7).
package tally
