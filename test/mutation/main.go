package main

import (
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
	only := flag.String("only", "", `"conditions", or a regular expression of the mutants to try; empty means both`)
	fit := flag.Bool("fit", false, "only look whether each mutant fits the code and has its tests")
	flag.Parse()
	if err := run(ctx, *only, *fit); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, fit bool) error {
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
	began := time.Now()
	var errs []error
	if only != "conditions" {
		list := slices.DeleteFunc(slices.Clone(mutants), func(m Mutant) bool { return !pattern.MatchString(m.Invariant + " " + m.Name) })
		if len(list) == 0 {
			return fmt.Errorf("-only=%s: no mutant has such a name", only)
		}
		if err := fits(root, list); err != nil || fit {
			return err
		}
		errs = append(errs, tryAll(ctx, root, dir, list))
	}
	if only == "" || only == "conditions" {
		errs = append(errs, conditions(ctx, root, dir))
	}
	fmt.Printf("\ntook %s\n", time.Since(began).Round(time.Second))
	return errors.Join(errs...)
}

// fits reports each mutant whose text is not there once, and each test that is gone.
func fits(root string, list []Mutant) error {
	var errs []error
	for _, m := range list {
		if _, err := m.apply(root); err != nil {
			errs = append(errs, err)
		}
		names := strings.Fields(m.Noticed)
		for _, name := range names[1:] {
			if !strings.Contains(testSources(root, names[0]), "\nfunc "+name+"(") {
				errs = append(errs, fmt.Errorf("%s, %s: %s has no %s. Name the test that took its place", m.Invariant, m.Name, names[0], name))
			}
		}
	}
	return errors.Join(errs...)
}

// tryAll tries the mutants one after the other. Before that their tests must pass.
func tryAll(ctx context.Context, root, dir string, list []Mutant) error {
	var errs []error
	tests := map[string][]string{}
	for _, m := range list {
		names := strings.Fields(m.Noticed)
		tests[names[0]] = append(tests[names[0]], names[1:]...)
	}
	for pkg, names := range tests {
		slices.Sort(names)
		if out, err := test(ctx, root, pkg, slices.Compact(names)); err != nil {
			errs = append(errs, fmt.Errorf("the tests of %s fail before anything is broken: %w\n%s", pkg, err, out))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Println("| invariant | fault | noticed by |\n|---|---|---|")
	for _, m := range list {
		failed, err := m.try(ctx, root, dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, %s: %w", m.Invariant, m.Name, err))
			failed = []string{"**nothing**"}
		}
		fmt.Printf("| %s | %s | %s |\n", m.Invariant, m.Name, strings.Join(failed, ", "))
	}
	fmt.Printf("\n%d mutants, %d survived\n", len(list), len(errs))
	return errors.Join(errs...)
}

// test runs tests of one package.
func test(ctx context.Context, root, pkg string, names []string, flags ...string) (string, error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=3m", "-v", "-run", "^(" + strings.Join(names, "|") + ")$"}, flags...)
	args = append(args, "./"+pkg)
	if usesRapid(root, pkg) {
		args = append(args, "-rapid.nofailfile") // else a mutant leaves its counterexample in the tree
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = root
	out, err := command.CombinedOutput()
	return string(out), err
}

// usesRapid reports whether the tests of a package know rapid's flags.
func usesRapid(root, pkg string) bool {
	return strings.Contains(testSources(root, pkg), `"pgregory.net/rapid"`)
}

// testSources are all test files of a package.
func testSources(root, pkg string) string {
	var all strings.Builder
	paths, _ := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	for _, path := range paths {
		data, _ := os.ReadFile(path) // what is missing lacks its tests
		all.Write(data)
	}
	return all.String()
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+) `)

// failedTests are the tests that failed according to the output of go test.
func failedTests(out string) (failed []string) {
	for _, match := range failure.FindAllStringSubmatch(out, -1) {
		failed = append(failed, match[1])
	}
	return failed
}

// writeOverlay writes an overlay for go build that replaces files of the repository, or adds some.
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

// try breaks the code and returns the tests that noticed it.
func (m Mutant) try(ctx context.Context, root, dir string) ([]string, error) {
	source, err := m.apply(root)
	if err != nil {
		return nil, err
	}
	overlay, err := writeOverlay(root, dir, map[string][]byte{m.File: source})
	if err != nil {
		return nil, err
	}
	names := strings.Fields(m.Noticed)
	out, err := test(ctx, root, names[0], names[1:], "-overlay", overlay)
	if err == nil {
		return nil, errors.New("the tests pass all the same: the invariant is not held")
	}
	failed := failedTests(out)
	if len(failed) == 0 {
		return nil, fmt.Errorf("no test failed, but the run did:\n%s", out)
	}
	return failed, nil
}

// apply returns the file with the edit.
func (m Mutant) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		return nil, fmt.Errorf("%s, %s: %s has this text %d times, and a mutant needs it once. Change the mutant with the code:\n%s",
			m.Invariant, m.Name, m.File, n, m.Old)
	}
	return []byte(strings.Replace(string(source), m.Old, m.New, 1)), nil
}
