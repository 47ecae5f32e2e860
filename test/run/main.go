package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// mostFlaky is how many tests may pass only when they run alone.
const mostFlaky = 2

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], goTest, os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// tester starts `go test -json` and hands its output to read.
type tester func(ctx context.Context, args []string, read func(io.Reader) error) error

func goTest(ctx context.Context, args []string, read func(io.Reader) error) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-vet=off", "-count=1"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(read(out), cmd.Wait())
}

// run runs a suite, and what failed in it once more.
func run(ctx context.Context, args []string, test tester, out io.Writer) error {
	first := newResults(out)
	err := test(ctx, args, first.read)
	if ctx.Err() != nil {
		return err
	}
	if err == nil {
		if len(first.passed) == 0 {
			return errors.New("no test ran")
		}
		return nil
	}
	if !first.ended {
		first.broken = cmp.Or(first.broken, "it ended in the middle")
	}
	if first.broken != "" || len(first.failed) == 0 {
		return fmt.Errorf("the suite failed beside its tests (%s): %w", cmp.Or(first.broken, "no test failed"), err)
	}
	var flaky int
	var failed []string
	for _, name := range first.failed {
		if message, ok := first.slow(name); !ok {
			fmt.Fprintf(out, "NOT RETRIED: %s was not only slow: %s\n", name, message)
			failed = append(failed, name.test)
			continue
		}
		fmt.Fprintf(out, "RETRY: %s, alone\n", name)
		second := newResults(out)
		if err := test(ctx, alone(args, name), second.read); err != nil || !slices.Contains(second.passed, name) {
			failed = append(failed, name.test)
			continue
		}
		flaky++
		fmt.Fprintf(out, "FLAKY: %s\n", name)
		fmt.Fprintf(out, "--- how it failed:\n%s--- how it passed:\n%s---\n", first.end(name), second.end(name))
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	if flaky > mostFlaky {
		return fmt.Errorf("%d tests passed only when they ran alone", flaky)
	}
	return nil
}

// alone are the arguments that run one test: packages and patterns of the suite are replaced.
func alone(args []string, name testName) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-args": // all that follows is for the test
			return append(append(out, "-run", "^"+name.test+"$", name.pkg), args[i:]...)
		case arg == "-run" || arg == "-skip":
			i++
		case strings.HasPrefix(arg, "./"):
		default:
			out = append(out, arg)
		}
	}
	return append(out, "-run", "^"+name.test+"$", name.pkg)
}

// event is a line of `go test -json`, see `go doc test2json`.
type event struct{ Action, Package, Test, Output string }

// testName is a test that is no subtest.
type testName struct{ pkg, test string }

func (n testName) String() string { return n.pkg + "." + n.test }

// results are what `go test` reported.
type results struct {
	out            io.Writer
	passed, failed []testName
	// ended reports whether the test binary came to its end: one that panics, or is killed, does not.
	ended bool
	// broken says what failed beside a test: the setup of the suite, or what it checks at its end.
	broken string
	logs   map[testName][]string
}

func newResults(out io.Writer) *results { return &results{out: out, logs: map[testName][]string{}} }

func (r *results) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.take(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *results) take(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil { // such as a package that does not compile
		fmt.Fprintf(r.out, "%s", line)
		r.broken = strings.TrimSpace(string(line))
		return
	}
	test, sub, _ := strings.Cut(e.Test, "/")
	name := testName{e.Package, test}
	switch {
	case e.Action == "output" && e.Test == "":
		if output := strings.TrimSpace(e.Output); strings.HasPrefix(output, "exit status ") && output != "exit status 1" {
			r.broken = output
		}
		r.ended = r.ended || e.Output == "FAIL\n" || e.Output == "PASS\n"
	case e.Action == "output":
		r.logs[name] = append(r.logs[name], e.Output)
	case e.Action == "fail" && test != "" && sub == "":
		r.failed = append(r.failed, name)
	case e.Action == "pass" && test != "" && sub == "":
		r.passed = append(r.passed, name)
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
		r.broken = "it does not compile"
	}
	if e.Action == "output" && !passes(e.Output) {
		fmt.Fprint(r.out, e.Output)
	}
}

// passes reports whether a line is of no interest.
func passes(line string) bool {
	line = strings.TrimSpace(line)
	for _, prefix := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return line == "PASS"
}

// end is the end of the log of a test.
func (r *results) end(name testName) string {
	log := r.logs[name]
	return strings.Join(log[max(0, len(log)-20):], "")
}
