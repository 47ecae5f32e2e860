package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/test/harness"
)

// Each mutant still fits the code, leaves a file that parses, and names tests that exist.
func TestMutantsFitTheCode(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if m.Name == "" || names[m.Name] {
			t.Errorf("%q: a mutant has a name of its own", m.Name)
		}
		names[m.Name] = true
		edited, err := m.apply(root)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, edited, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: the edited file does not parse: %v", m.Name, err)
		}
		if m.Old == m.New || len(m.Tests) == 0 {
			t.Errorf("%s changes nothing, or nothing is to notice", m.Name)
		}
		sources := testSources(t, filepath.Join(root, m.Package))
		for _, test := range m.Tests {
			if !strings.Contains(sources, "func "+test+"(t *testing.T)") {
				t.Errorf("%s: there is no test %s in %s", m.Name, test, m.Package)
			}
		}
	}
}

// Each invariant that the contract gives a test has a mutant here. S7 is about counts.
func TestEveryInvariantIsBroken(t *testing.T) {
	for _, invariant := range []string{"S1", "S2", "S3", "S4", "S5", "S6", "S8", "S11", "S12"} {
		if !slices.ContainsFunc(mutants, func(m Mutant) bool { return m.Invariant == invariant }) {
			t.Errorf("no mutant breaks %s", invariant)
		}
	}
}

// The page on mutants says how many there are.
func TestPageCountsMutants(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "safety-mutants.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(" in %d ways", len(mutants)); !strings.Contains(string(page), want) {
		t.Errorf("docs/safety-mutants.md does not say%s", want)
	}
}

// A text that is not there, or twice, is an error, and not a mutant that does nothing.
func TestTextThatDoesNotFit(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package a\n\nvar x, y = 1, 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"2": "is there 0 times", "1": "is there 2 times", "x": ""} {
		_, err := Mutant{File: "a.go", Old: old, New: "z"}.apply(root)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", old, err, want)
		}
	}
}

func testSources(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
