package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page has a row for each part, and what render writes results reads.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	last := results(string(text))
	if got := render(string(text), last); got != string(text) {
		t.Errorf("%s does not have the rows of parts.go; it should be\n%s", page, got)
	}
	last["soak"] = result{passed, "1 January 2026", "abcdef12", "3m0s"}
	delete(last, "race")
	changed := render(string(text), last)
	if got := results(changed); !maps.Equal(got, last) {
		t.Errorf("read %v, want %v", got, last)
	}
}

// The page of releases has a row for each release, and a column for each suite. Results that are
// written show there.
func TestReleases(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	last := results(string(text))
	install, err := os.ReadFile("../../" + releasesPage)
	if err != nil {
		t.Fatal(err)
	}
	if got := matrix(string(install), last); got != string(install) || !strings.Contains(got, "\n| 1.37 | ") {
		t.Errorf("%s does not have the rows of releases and suites; it should be\n%s", releasesPage, got)
	}
	last["kubernetes-1.34-cli"] = result{passed, "1 January 2026", "abcdef12", "3m0s"}
	if got := matrix(string(install), last); strings.Count(got, "passed, 1 January 2026, abcdef12") != 1 {
		t.Errorf("the result does not show in\n%s", got)
	}
	pinned, err := filepath.Glob("../cluster/kubernetes-*.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(pinned, "../cluster/go.mod") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		release := regexp.MustCompile(`\tk8s\.io/kubernetes v(\d+\.\d+)\.`).FindStringSubmatch(string(text))
		if release == nil || !slices.Contains(releases, release[1]) {
			t.Errorf("%s pins %v, which is not one of %v", path, release, releases)
		}
	}
	if len(pinned)+1 != len(releases) {
		t.Errorf("%d releases are pinned, and %v have parts", len(pinned)+1, releases)
	}
}

// Each package of make test-e2e is a suite.
func TestSuites(t *testing.T) {
	packages, err := filepath.Glob("../e2e/*/suite_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range packages {
		name := filepath.Base(filepath.Dir(path))
		if !slices.ContainsFunc(suites, func(suite part) bool { return strings.HasSuffix(suite.script, "./test/e2e/"+name) }) {
			t.Errorf("test/e2e/%s is no suite", name)
		}
	}
	if len(packages) < 4 {
		t.Errorf("only %v", packages)
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != len(parts) {
		t.Errorf("%d parts, %v", len(all), err)
	}
	if some, err := choose([]string{"race", "soak"}); err != nil || len(some) != 2 || some[0].name != "race" {
		t.Errorf("%v, %v", some, err)
	}
	if some, err := choose([]string{"kubernetes-1.37"}); err != nil || len(some) != len(suites) || some[1].name != "kubernetes-1.37-e2e" ||
		!strings.HasPrefix(some[1].script, "export KUBERNETES=1.37\n") {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := choose([]string{"sook"}); err == nil {
		t.Error("an unknown part is no error")
	}
}
