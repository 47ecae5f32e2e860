package docs_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	reasonConstant = regexp.MustCompile(`(?m)^\s*Reason[A-Za-z]*\s*=\s*"([A-Z][A-Za-z]+)"|\breason: "([A-Z][A-Za-z]+)"|const Reason[A-Za-z]*\s*=\s*"([A-Z][A-Za-z]+)"`)
	quotedWord     = regexp.MustCompile("`([A-Za-z]+)`")
)

// TestReasons: the reference lists every reason of an Event or a condition, and no other.
func TestReasons(t *testing.T) {
	known := map[string]bool{} // The Events at the end of cleanup runs are named after its phase.
	for _, phase := range []v1alpha1.RunPhase{v1alpha1.RunCompleted, v1alpha1.RunStalled, v1alpha1.RunFailed} {
		known["Cleanup"+string(phase)] = true
	}
	for _, path := range sources(t, "policy", "controller", "webhook", "certs") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range reasonConstant.FindAllStringSubmatch(string(text), -1) {
			known[match[1]+match[2]+match[3]] = true
		}
	}
	if len(known) < 35 {
		t.Fatalf("only %d reasons found: %v", len(known), known)
	}
	var listed strings.Builder
	for _, section := range []string{"## Events\n", "## Reasons of conditions\n"} {
		_, text, ok := strings.Cut(reference(t), section)
		if !ok {
			t.Fatalf("the reference has no section %q", section)
		}
		text, _, _ = strings.Cut(text, "\n## ")
		for line := range strings.Lines(text) {
			if first, _, ok := strings.Cut(line, " | "); ok && strings.HasPrefix(line, "| `") {
				listed.WriteString(first)
			}
		}
	}
	sameRows(t, quotedWord, listed.String(), slices.Sorted(maps.Keys(known)))
}
