// Command full runs the tests that take too long for each change: scale, kill storms, matrices. It
// runs them part by part. It prints the result of each part, and appends it to .full/results. A part
// that has passed at this commit is left out, so that an interrupted run goes on where it ended.
//
//	go run ./test/full                 # all parts; what make test-full runs
//	go run ./test/full soak race       # these parts; make test-full PART="soak race"
//	go run ./test/full kubernetes-1.37 # the suites of make test-e2e on that release, a part each
package main
