// Command run runs end-to-end tests with `go test`, and leaves out of their output what passes.
//
//	go run ./test/run -parallel 10 ./test/e2e
//
// A test that fails runs once more, alone, after its suite. If it passes then, it is reported as
// FLAKY with the ends of both logs, and does not fail the run. Three such tests do. A failure that
// is about an object that was deleted, stopped or counted is never tried again, unless the test only
// waited too long.
package main
