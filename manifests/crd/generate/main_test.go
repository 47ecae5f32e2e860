package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJoin(t *testing.T) {
	for text, want := range map[string]string{
		"one line":                               "one line",
		"wrapped\nlines":                         "wrapped lines",
		"a paragraph\nof two\n\nand\nanother":    "a paragraph of two\n\nand another",
		"a list:\n- one\n- two\nof lines\n\nend": "a list:\n- one\n- two of lines\n\nend",
		"code:\n  a\n  b":                        "code:\n  a\n  b",
		"":                                       "",
	} {
		if got := join(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestDefinitionsAreJoined(t *testing.T) {
	paths, err := filepath.Glob("../curfew.dev_*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, path := range paths {
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := joined(have); err != nil || string(want) != string(have) {
			t.Errorf("%s is out of date (%v): run make generate", path, err)
		}
	}
}

// TestPage: docs/reference-fields.md has what the types say now, and each of their kinds.
func TestPage(t *testing.T) {
	have, err := os.ReadFile(filepath.Join("..", pagePath))
	if err != nil {
		t.Fatal(err)
	}
	want, err := page("..")
	if err != nil {
		t.Fatal(err)
	}
	if want != string(have) {
		t.Error("docs/reference-fields.md is out of date: run make generate")
	}
	for _, row := range []string{
		"| `spec.match.kinds[].kind` | string | required | 1 to 63 characters",
		"| `spec.approval` | `Required`, `NotRequired` | `\"NotRequired\"` |",
	} {
		if !strings.Contains(want, row) {
			t.Errorf("the page has no row %s", row)
		}
	}
}
