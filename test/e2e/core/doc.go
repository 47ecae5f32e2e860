// Package core tests the promises of Curfew's README, one test each, in a few minutes: defaults,
// warnings, denials, deletion after a TTL and by label, deadlines, cleanup policies, PodTallies, and
// kubectl curfew explain. make test runs it; make test-e2e runs the suites beside it, which test
// what can go wrong.
//
// Curfew runs as the manifests say, leader election included, and the in-tree TTL controller runs
// beside it, as in most clusters. A test shows that an object is kept by another one that is due
// later and deleted.
package core
