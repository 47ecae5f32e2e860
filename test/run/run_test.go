package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

var errExit = errors.New("exit status 1")

// played is a tester that answers with the lines of a test, by the times that it ran.
func played(asked *[]string, runs ...[]event) tester {
	return func(_ context.Context, args []string, read func(io.Reader) error) error {
		*asked = append(*asked, strings.Join(args, " "))
		events := runs[0]
		runs = runs[1:]
		var text strings.Builder
		var result error
		for _, e := range events {
			line, err := json.Marshal(e)
			if err != nil {
				return err
			}
			text.Write(append(line, '\n'))
			if e.Action == "fail" {
				result = errExit
			}
		}
		return errors.Join(read(strings.NewReader(text.String())), result)
	}
}

func failing(test, message string) []event {
	out := []event{{"output", "p", test, "=== RUN   " + test + "\n"}}
	for line := range strings.Lines("    a_test.go:7: " + message + "\n") {
		out = append(out, event{"output", "p", test, line})
	}
	return append(out, event{"output", "p", test, "--- FAIL: " + test + " (0.00s)\n"}, event{"fail", "p", test, ""},
		event{"output", "p", "", "FAIL\n"}, event{"output", "p", "", "exit status 1\n"}, event{"fail", "p", "", ""})
}

func passing(test string) []event {
	return []event{{"output", "p", test, "--- PASS: " + test + "\n"}, {"pass", "p", test, ""}, {"output", "p", "", "ok  \tp\t1s\n"}, {"pass", "p", "", ""}}
}

func TestRun(t *testing.T) {
	args := []string{"-parallel", "10", "-skip", "^TestPeers", "./test/e2e", "-args", "-seeds", "7"}
	three := slices.Concat(failing("TestA", "too slow"), failing("TestB", "too slow"), failing("TestC", "too slow"))
	for name, test := range map[string]struct {
		runs         [][]event
		asked        int
		err, printed string
	}{
		"passes": {runs: [][]event{passing("TestA")}, asked: 1, printed: "ok  \tp\t1s\n"},
		"slow once": {runs: [][]event{failing("TestA", "waited 10m0s for job/a to be deleted"), passing("TestA")}, asked: 2,
			printed: "FLAKY: p.TestA\n"},
		"slow twice": {runs: [][]event{failing("TestA", "waited 10m0s for job/a"), failing("TestA", "waited 10m0s for job/a")}, asked: 2,
			err: "failed: TestA"},
		"deleted early": {runs: [][]event{failing("TestA", "job/a was deleted 3s before its expiry")}, asked: 1,
			err: "failed: TestA", printed: "NOT RETRIED: p.TestA"},
		"a count": {runs: [][]event{failing("TestA", "its counts became 1, want 3")}, asked: 1, err: "failed: TestA"},
		"a count in the second line": {runs: [][]event{failing("TestA", "status\n        counted 1, want 3")}, asked: 1,
			err: "failed: TestA"},
		"a wait for a count": {runs: [][]event{failing("TestA", "the count of never: waited 10m0s for it")}, asked: 1,
			err: "failed: TestA", printed: "NOT RETRIED: p.TestA"},
		"another answer": {runs: [][]event{failing("TestA", `got "", want "denied"`)}, asked: 1, err: "failed: TestA"},
		"a note": {runs: [][]event{failing("TestA", "note: deleted\n        deleted 3\n    a_test.go:8: too slow"), passing("TestA")}, asked: 2,
			printed: "--- how it failed:\n=== RUN"},
		"skipped when alone": {runs: [][]event{failing("TestA", "too slow"), passing("TestB")}, asked: 2, err: "failed: TestA"},
		"a panic": {runs: [][]event{{{"output", "p", "TestA", "panic: nil\n"}, {"output", "p", "TestA", "exit status 2\n"}, {"fail", "p", "TestA", ""}}},
			asked: 1, err: "the suite failed beside its tests (it ended in the middle): exit status 1"},
		"no test": {runs: [][]event{{{"output", "p", "", "ok  \tp\t1s [no tests to run]\n"}, {"pass", "p", "", ""}}}, asked: 1, err: "no test ran"},
		"three that pass alone": {runs: [][]event{three, passing("TestA"), passing("TestB"), passing("TestC")}, asked: 4,
			err: "3 tests passed only when they ran alone"},
		"the end of a suite": {runs: [][]event{append(failing("TestA", "x"), event{"output", "p", "", "exit status 3\n"})}, asked: 1,
			err: "the suite failed beside its tests (exit status 3): exit status 1"},
		"a suite that does not begin": {runs: [][]event{{{"fail", "p", "", ""}}}, asked: 1,
			err: "the suite failed beside its tests (it ended in the middle): exit status 1"},
		"a suite that is not compiled": {runs: [][]event{{{"build-output", "", "", "a.go:1: no\n"}, {"fail", "p", "", ""}}}, asked: 1,
			err: "the suite failed beside its tests (it does not compile): exit status 1", printed: "a.go:1: no\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			var out strings.Builder
			err := run(t.Context(), args, played(&asked, test.runs...), &out)
			if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("error %v, want %s", err, test.err)
			}
			if len(asked) != test.asked || !strings.Contains(out.String(), test.printed) {
				t.Errorf("ran %q and printed\n%s", asked, &out)
			}
			if len(asked) > 1 && asked[1] != "-parallel 10 -run ^TestA$ p -args -seeds 7" {
				t.Errorf("the second run is %q", asked[1])
			}
		})
	}
}
