// Package core tests the promises of Curfew's README, one test each, in a few minutes: defaults,
// warnings, denials, deletion after a TTL and by label, deadlines, cleanup policies, PodTallies, and
// kubectl curfew explain. make test runs it; make test-e2e runs the suites beside it, which test
// what can go wrong.
//
// Curfew runs as the manifests say, leader election included, and the in-tree TTL controller runs
// beside it, as in most clusters. What a test expects to be kept is shown by what is deleted later.
package core
