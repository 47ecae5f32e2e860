package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The page shows the recorded numbers. Marks of age are left out: code changes without a
// measurement.
func TestPerformancePage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, performancePage))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := renderPage(root, string(page), func(recordedResult, []string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	if withoutMarks(string(page)) != fresh {
		t.Errorf("the tables in %s are not what %s has: run make bench-report", performancePage, performanceFile)
	}
	all, err := readRecorded(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if !strings.Contains(string(page), "`"+r.Name+"`") {
			t.Errorf("no table of the page has %s", r.Name)
		}
		if _, err := choose(r.Bench); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

// A number is older than its code when the code differs, by content where the commit is known, and
// by date where it is not. A history that does not say claims nothing.
func TestOlderThanItsCode(t *testing.T) {
	root := t.TempDir()
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-20T12:00:00Z", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := history{context.Background(), root}
	dated := func(day string) recordedResult { return recordedResult{Bench: "tally", Date: day} }
	check := func(name string, h history, r recordedResult, want bool) {
		t.Helper()
		if got := h.older(r, []string{"controller/tally", "policy/tally"}); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	check("without git", h, dated("2020-01-01"), false)
	run(root, "init", "-q")
	write("controller/tally/a.go", "1")
	write("controller/tally/a_test.go", "1")
	run(root, "add", "-A")
	run(root, "commit", "-qm", "1")
	commit := run(root, "rev-parse", "HEAD")
	known := recordedResult{Bench: "tally", Date: "2026-11-20", Commit: commit}
	check("the commit itself", h, known, false)
	check("a day before", h, dated("2026-11-19"), true)
	check("the same day", h, dated("2026-11-20"), true)
	lost := known
	lost.Commit = strings.Repeat("1", 40)
	check("a commit that is not in the history", h, lost, true)
	check("a day later", h, dated("2026-11-21"), false)
	write("controller/tally/a_test.go", "2")
	write("docs/page.md", "2")
	run(root, "add", "-A")
	run(root, "commit", "-qm", "2")
	check("tests and other folders changed", h, known, false)
	write("controller/tally/a.go", "2")
	check("changed and not committed", h, known, true)
	run(root, "commit", "-qam", "3")
	check("changed", h, known, true)
	shallow := t.TempDir()
	run(shallow, "clone", "-q", "--depth=1", "file://"+root, "clone")
	clone := history{context.Background(), filepath.Join(shallow, "clone")}
	check("shallow, the commit is not there", clone, known, false)
	check("shallow, by date", clone, dated("2020-01-01"), false)
	check("shallow, the commit is there", clone, recordedResult{Bench: "tally", Commit: run(root, "rev-parse", "HEAD")}, false)
}
