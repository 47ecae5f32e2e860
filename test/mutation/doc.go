// Command mutation breaks Curfew on purpose, and demands that its tests notice.
//
// A [Mutant] is one edit of one file that breaks a safety invariant. The tests that are to notice it
// run with go test -overlay, so that the tree is never touched and nothing but the edited package is
// compiled again. Before that they have to pass without the edit. conditions.go switches off each
// condition of policy/judging that decides about a deletion.
//
// A mutant that survives, that does not compile, whose text is not there exactly once, or whose test
// is gone, is an error. No unit test looks for that: code may change without its mutants until make
// test-mutation runs.
package main
