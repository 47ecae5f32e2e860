package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("only", "", "regular expression of the mutants to try, or conditions; empty means all")
	flag.Parse()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only=%s: %w", only, err)
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var errs []error
	if pattern.MatchString("conditions") {
		errs = append(errs, conditions(ctx, root, dir))
	}
	if only == "conditions" {
		return errors.Join(errs...)
	}
	list := slices.DeleteFunc(slices.Clone(mutants), func(m Mutant) bool { return !pattern.MatchString(m.Invariant + " " + m.Name) })
	if len(list) == 0 {
		return fmt.Errorf("-only=%s: no mutant has such a name", only)
	}
	if err := sound(ctx, root, list); err != nil {
		return err
	}
	began := time.Now()
	fmt.Println("| invariant | fault | noticed by |")
	fmt.Println("|---|---|---|")
	for _, m := range list {
		failed, err := try(ctx, root, dir, m)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			errs = append(errs, fmt.Errorf("%s, %s: %w", m.Invariant, m.Name, err))
			fmt.Printf("| %s | %s | **nothing** |\n", m.Invariant, m.Name)
		default:
			fmt.Printf("| %s | %s | `%s` |\n", m.Invariant, m.Name, strings.Join(failed, "`, `"))
		}
	}
	fmt.Printf("\n%d mutants, %s\n", len(list), time.Since(began).Round(time.Second))
	return errors.Join(errs...)
}

// sound runs the tests of all mutants on the code as it is: what fails anyway tells nothing.
func sound(ctx context.Context, root string, list []Mutant) error {
	tests := map[string][]string{}
	for _, m := range list {
		tests[m.Package] = append(tests[m.Package], m.Tests...)
	}
	for pkg, names := range tests {
		slices.Sort(names)
		if out, err := test(ctx, root, pkg, slices.Compact(names)); err != nil {
			return fmt.Errorf("the tests of %s fail before anything is broken:\n%s", pkg, out)
		}
	}
	return nil
}

// test runs tests of one package, and fails if one of them does not exist.
func test(ctx context.Context, root, pkg string, names []string, flags ...string) (string, error) {
	args := append([]string{"test", "-count=1", "-timeout=3m", "-v", "-run", "^(" + strings.Join(names, "|") + ")$"}, flags...)
	args = append(args, "./"+pkg)
	if usesRapid(root, pkg) {
		args = append(args, "-rapid.nofailfile") // else a mutant leaves its counterexample in the tree
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = root
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	for _, name := range names {
		if err == nil && !strings.Contains(out.String(), "--- PASS: "+name+" ") {
			return out.String(), fmt.Errorf("there is no test %s", name)
		}
	}
	return out.String(), err
}

// usesRapid tells whether the tests of a package know rapid's flags.
func usesRapid(root, pkg string) bool {
	paths, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	return err == nil && slices.ContainsFunc(paths, func(path string) bool {
		data, err := os.ReadFile(path)
		return err == nil && bytes.Contains(data, []byte("\"pgregory.net/rapid\""))
	})
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) `)

// failedTests are the tests that failed according to the output of go test.
func failedTests(out string) []string {
	var failed []string
	for _, match := range failure.FindAllStringSubmatch(out, -1) {
		failed = append(failed, match[1])
	}
	return failed
}

// writeOverlay writes an overlay for go build that replaces files of the repository.
func writeOverlay(root, dir string, edits map[string][]byte) (string, error) {
	replace := map[string]string{}
	for file, source := range edits {
		edited := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(edited, source, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = edited
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// try breaks the code and answers with the tests that noticed.
func try(ctx context.Context, root, dir string, m Mutant) ([]string, error) {
	source, err := m.apply(root)
	if err != nil {
		return nil, err
	}
	overlay, err := writeOverlay(root, dir, map[string][]byte{m.File: source})
	if err != nil {
		return nil, err
	}
	out, err := test(ctx, root, m.Package, m.Tests, "-overlay", overlay)
	if err == nil {
		return nil, fmt.Errorf("%s pass all the same: the invariant is not held", strings.Join(m.Tests, ", "))
	}
	failed := failedTests(out)
	if len(failed) == 0 {
		return nil, fmt.Errorf("no test failed, but the run did:\n%s", out)
	}
	return failed, nil
}

// apply is the file with the edit.
func (m Mutant) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		return nil, fmt.Errorf("%s: the text that is to go is there %d times, want once: bring the mutant in step with the code:\n%s", m.File, n, m.Old)
	}
	return []byte(strings.Replace(string(source), m.Old, m.New, 1)), nil
}
