package house

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the present numbers of code lines to ratchet.json")

// TestBudget: ratchet.json has the code lines that product, tests and tools may have. What needs
// more lines says why in its commit, and writes the new numbers with -update. What needs fewer
// passes.
func TestBudget(t *testing.T) {
	const file = "ratchet.json"
	all := sources(t)
	now := codeLines(all, areaOf)
	folders := codeLines(all, func(s *source) string {
		parts := strings.Split(s.path, "/")
		return strings.Join(parts[:min(2, len(parts)-1)], "/") + " " + areaOf(s)
	})
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		t.Logf("%7d %s", folders[folder], folder)
	}
	if *update {
		rounded := map[string]int{} // so that a line more is no failure
		for area, lines := range now {
			rounded[area] = (lines + 99) / 100 * 100
		}
		data, err := json.MarshalIndent(rounded, "", "\t")
		must(t, err)
		if err := os.WriteFile(file, fmt.Appendln(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	must(t, err)
	budget := map[string]int{}
	if err := json.Unmarshal(data, &budget); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for area, lines := range now {
		if lines > budget[area] {
			t.Errorf("%s: %d code lines, at most %d: delete some, or raise the budget with go test ./test/house -update", area, lines, budget[area])
		}
	}
}

// areaOf is product, tests, or tools.
func areaOf(s *source) string {
	switch {
	case strings.HasSuffix(s.path, "_test.go"):
		return "tests"
	case s.product():
		return "product"
	default:
		return "tools"
	}
}

// codeLines counts lines that are neither blank nor only a comment, in hand-written code.
func codeLines(all []source, key func(*source) string) map[string]int {
	found := map[string]int{}
	for i := range all {
		s := &all[i]
		if ast.IsGenerated(s.file) {
			continue
		}
		for _, line := range s.lines {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				found[key(s)]++
			}
		}
	}
	return found
}
