package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReportReadsMetricsThatExist: the report takes its numbers from metrics by their names. A test
// in docs compares the reference with the metrics.
func TestReportReadsMetricsThatExist(t *testing.T) {
	code, err := os.ReadFile("settings.go")
	must(t, err)
	reference, err := os.ReadFile("../../docs/reference-signals.md")
	must(t, err)
	names := regexp.MustCompile(`"(curfew_[a-z_]+)"`).FindAllStringSubmatch(string(code), -1)
	if len(names) < 6 {
		t.Errorf("only %d metrics are read", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(reference), "| `"+name[1]+"` |") {
			t.Errorf("there is no metric %s", name[1])
		}
	}
}
