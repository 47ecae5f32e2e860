// Command run runs end-to-end tests with `go test`, and leaves out of their output what passes.
//
//	go run ./test/run -parallel 10 ./test/e2e
//
// A test that fails runs once more, alone, after its suite. If it passes then, it is reported as
// FLAKY with the ends of both logs, and does not fail the run. Three such tests do. Only a test whose
// messages are all about a wait that took too long, or about a broken connection, runs again: a wrong
// deletion, a wrong count or a wrong answer never does. Messages that begin with "note: " report no
// failure.
package main
