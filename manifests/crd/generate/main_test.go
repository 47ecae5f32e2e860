package main

import (
	"os"
	"path/filepath"
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
