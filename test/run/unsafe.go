package main

import (
	"regexp"
	"strings"
)

var (
	// reported is a line that a test wrote: where it is in the source, and what it says.
	reported = regexp.MustCompile(`^\s*\w+\.go:\d+: (.*)`)
	// about is what may be the fault of Curfew alone, however busy the machine is.
	about = regexp.MustCompile(`(?i)\b(delet\w+|gone|early|twice|again|stopped|marked|left|missing|forgotten|overdue|counts?|counted|uncounted|tally|tallies|` +
		`succeeded|before (its|the|it)|S([1-9]|1[0-2]))\b`)
	// slow is a wait that took too long, which says nothing else.
	slow = regexp.MustCompile(`waited \S+ for |context deadline exceeded|too slow`)
)

// unsafe is the first line of a failed test that is about a deletion or a count. Such a test is not
// run again: what fails once in a hundred times would be lost.
func (r *results) unsafe(name testName) string {
	inside := false // the lines of a message after its first one
	for _, line := range r.logs[name] {
		line = strings.TrimRight(line, "\n")
		if match := reported.FindStringSubmatch(line); match != nil {
			line, inside = match[1], !slow.MatchString(match[1])
		} else if !strings.HasPrefix(line, "        ") {
			inside = false
		}
		if inside && about.MatchString(line) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
