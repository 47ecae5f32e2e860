// Command mutation breaks Curfew on purpose, one safety invariant at a time, and demands that its
// tests notice.
//
// A [Mutant] is one edit of one file: the text that goes and what takes its place. For each, the
// tests that are to fail are run with go test -overlay, which compiles the edited file in the place
// of the real one, so that the tree is never touched and nothing but the edited package is built
// anew. Before that the same tests have to pass without the edit. A mutant that survives, that does
// not compile, or whose text is not found exactly once is an error; the last is checked by a unit
// test too, so that the table cannot rot.
package main
