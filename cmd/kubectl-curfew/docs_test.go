package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	console = regexp.MustCompile("(?ms)^ *```console\n(.*?)^ *```$")
	lintRun = regexp.MustCompile(`(?m)^\$ kubectl curfew (lint .*)\n((?:[^$\n].*\n)*)`)
)

// TestPagesShowWhatLintPrints runs what the pages show, in testdata/docs, and compares output for output.
func TestPagesShowWhatLintPrints(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]string{}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range console.FindAllStringSubmatch(string(text), -1) {
			for _, run := range lintRun.FindAllStringSubmatch(block[1], -1) {
				if run[2] != "" {
					runs[run[1]] = run[2]
				}
			}
		}
	}
	if len(runs) < 3 {
		t.Errorf("only %d runs of lint are shown", len(runs))
	}
	t.Chdir("testdata/docs")
	for line, want := range runs {
		command, _, _ := strings.Cut(line, "   # ")
		_, stdout, stderr, _ := execute(t, scene{}, strings.Fields(command)...)
		if have := stdout + stderr; have != want {
			t.Errorf("kubectl curfew %s prints\n%s\nand not\n%s", line, have, want)
		}
	}
}
