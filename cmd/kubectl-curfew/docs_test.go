package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

var (
	transcript = regexp.MustCompile("(?ms)^ *```console\n(.*?)^ *```$")
	realRun    = regexp.MustCompile(`(?m)^\$ (kubectl curfew (?:defaults|expire-now|expiring|explain|extend|keep|status)(?: .*)?)\n((?:[^$\n].*\n|\n)*)`)
	lintRun    = regexp.MustCompile(`(?m)^\$ kubectl curfew (lint .*)\n((?:[^$\n].*\n)*)`)
)

// TestPagesShowWhatLintPrints runs the commands of the pages in testdata/docs, and compares their
// output with the pages.
func TestPagesShowWhatLintPrints(t *testing.T) {
	runs := map[string]string{}
	for _, page := range pagesWithOutput(t) {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, block := range transcript.FindAllStringSubmatch(string(text), -1) {
			for _, run := range lintRun.FindAllStringSubmatch(block[1], -1) {
				if run[2] != "" {
					runs[run[1]] = run[2]
				}
			}
		}
	}
	if len(runs) < 2 {
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

// pagesWithOutput are the README and all pages but those that TestTutorial runs and compares.
func pagesWithOutput(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	pages = slices.DeleteFunc(pages, func(page string) bool {
		return slices.Contains([]string{"tutorial.md", "developers.md", "ci.md"}, filepath.Base(page))
	})
	return append(pages, "../../README.md")
}

// TestPagesShowWhatWasPrinted: for commands that ask a cluster, the pages show the output of the
// end-to-end tests.
func TestPagesShowWhatWasPrinted(t *testing.T) {
	files, err := filepath.Glob("../../test/e2e/cli/testdata/golden/*.txt")
	must(t, err)
	_, answered := goldens(t, "testdata/golden/status.txt") // The output of status differs from cluster to cluster.
	stdout, rest, _ := strings.Cut(answered["status"].want, "--- stderr, exit status ")
	_, stderr, _ := strings.Cut(rest, "\n")
	printed := map[string]string{"kubectl curfew status": stderr + stdout}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		_, rest, _ := strings.Cut(string(text), "$ ")
		line, rest, _ := strings.Cut(rest, "\n")
		stdout, rest, _ := strings.Cut(rest, "--- stderr, exit status ")
		_, stderr, _ := strings.Cut(rest, "\n")
		printed[line] = stderr + stdout
	}
	shown := 0
	for _, page := range pagesWithOutput(t) {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, block := range transcript.FindAllStringSubmatch(string(text), -1) {
			for _, run := range realRun.FindAllStringSubmatch(block[1], -1) {
				have := strings.TrimSpace(run[2])
				if have == "" {
					continue
				}
				shown++
				command, _, _ := strings.Cut(run[1], "   # ")
				if want, ok := printed[command]; !ok || have != strings.TrimSpace(want) {
					t.Errorf("%s: %s is shown with\n%s\nand printed\n%s", page, command, have, want)
				}
			}
		}
	}
	if shown < 4 {
		t.Errorf("only %d runs are shown", shown)
	}
}

var (
	anyBlock  = regexp.MustCompile("(?ms)^ *```(?:sh|console|bash)?\n(.*?)^ *```$")
	inBlock   = regexp.MustCompile(`(?m)^ *(?:\$ )?(?:- run: )?kubectl[- ]curfew (.*)$`)
	inText    = regexp.MustCompile("`kubectl[- ]curfew ([^`]+)`")
	shellWord = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	shellEnd  = regexp.MustCompile(`\s(?:#|\||>|&&|;|2>).*$`)
)

// parseLine has the command line parse what a page shows behind kubectl curfew. Arguments are only
// demanded of whole commands.
func parseLine(line string, whole bool) error {
	words := shellWord.FindAllString(shellEnd.ReplaceAllString(line, ""), -1)
	for i, word := range words {
		words[i] = strings.Trim(word, `'"[]`)
	}
	top := root(console.Environment{})
	if len(words) > 0 && strings.HasPrefix(words[0], "-") {
		return top.ParseFlags(words)
	}
	command, args, err := top.Find(words)
	if err != nil || slices.Contains(args, "...") {
		return err
	}
	if command == top {
		return fmt.Errorf("there is no command %q", words)
	}
	if err := command.ParseFlags(args); err != nil {
		return err
	}
	if !whole {
		return nil
	}
	if err := command.ValidateRequiredFlags(); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}

// TestCommandsOfPagesParse: each command and flag that a page names exists.
func TestCommandsOfPagesParse(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	parsed := 0
	for _, page := range append(pages, "../../README.md", "../../CHANGELOG.md", "../../CONTRIBUTING.md", "../../SECURITY.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		try := func(line string, whole bool) {
			parsed++
			if err := parseLine(line, whole); err != nil {
				t.Errorf("%s shows kubectl curfew %s: %v", page, line, err)
			}
		}
		for _, block := range anyBlock.FindAllStringSubmatch(string(text), -1) {
			for _, line := range inBlock.FindAllStringSubmatch(strings.ReplaceAll(block[1], "\\\n", " "), -1) {
				try(line[1], true)
			}
		}
		for _, line := range inText.FindAllStringSubmatch(anyBlock.ReplaceAllString(string(text), ""), -1) {
			try(line[1], false)
		}
	}
	if parsed < 200 {
		t.Errorf("only %d commands were found", parsed)
	}
	for _, bad := range []string{"explian job/a", "explain job/a --namespacee ci", "version extra", "expiring --within"} {
		if parseLine(bad, true) == nil {
			t.Errorf("kubectl curfew %s parses", bad)
		}
	}
}
