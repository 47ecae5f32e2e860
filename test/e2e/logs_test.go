package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"curfew.dev/curfew/test/harness"
)

// logLines are the lines of a log that contain all of the words.
func logLines(path string, words ...string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
lines:
	for line := range strings.SplitSeq(string(data), "\n") {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// awaitLog waits for a line with all of the words. A log cannot be watched.
func (s *space) awaitLog(path string, words ...string) string {
	s.Helper()
	var found []string
	err := harness.Poll(s.ctx, fmt.Sprintf("%s: a line of the log with %q", s.Name(), words), func(context.Context) (bool, error) {
		found = logLines(path, words...)
		return len(found) > 0, nil
	})
	if err != nil {
		s.Fatalf("no line of the log has %q", words)
	}
	return found[0]
}

// metric is the value of one series off the controller's metrics, or "" where there is none.
func metric(t *testing.T, ctx context.Context, series string) string {
	t.Helper()
	text, err := suite.controller.Scrape(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return value
		}
	}
	return ""
}
