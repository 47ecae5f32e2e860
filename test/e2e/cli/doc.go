// Package cli tests kubectl curfew as people use it: the real binary, found by kubectl as its
// plugin, against a real API server with Curfew's controller and webhook, on a terminal where that
// matters.
//
// The control plane is the tests' own (suite_test.go), so that -A shows what the tests put there
// (testdata/fixture.yaml, fixture_test.go) and nothing else. The controllers of Jobs, Deployments
// and Pods do not run: the status of objects is the tests'.
//
// What the commands print is kept in golden files (answers_test.go, whose tests come first: others
// leave objects behind). It tells of times, and the tests run at any time; so the user's time zone
// is made for the occasion (zone_test.go): its clocks show Thursday 24 December 2026, 13:00:00, at
// the moment when the fixture is created. So absolute times read the same each time. Relative times
// differ by the seconds since, and the tests set them back to that moment.
package cli
