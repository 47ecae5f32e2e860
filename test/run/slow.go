package main

import (
	"regexp"
	"strings"
)

var (
	// reported is the first line of a message of a test. Its further lines are indented.
	reported = regexp.MustCompile(`^\s*\w+\.go:\d+: (.*)`)
	// late is a message about time or a connection, which a busy machine can cause.
	late = regexp.MustCompile(`waited \S+ for |too slow|context deadline exceeded|failed calling webhook|connection re(fused|set)|` +
		`handshake timeout|i/o timeout|timed out|unexpected EOF`)
	// counted is a message about a number that must be exact. A wait for it may be about one that is
	// wrong for good.
	counted = regexp.MustCompile(`(?i)\bcount(s|ed)?\b|tall(y|ies)|deleted|early`)
)

// note begins a message that reports no failure.
const note = "note: "

// slow reports whether a failed test was only slow, or else which message says more. What fails once
// in a hundred times because of Curfew would be lost if the test ran again.
func (r *results) slow(name testName) (more string, ok bool) {
	for _, message := range messages(strings.Join(r.logs[name], "")) {
		if strings.HasPrefix(message, note) {
			continue
		}
		if !late.MatchString(message) || counted.MatchString(late.ReplaceAllString(message, "")) && !strings.Contains(message, "to be deleted") {
			return message, false
		}
		ok = true
	}
	return "it reports no failure", ok
}

// messages are what a test reported, one an entry.
func messages(log string) (out []string) {
	inside := false
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\n")
		match := reported.FindStringSubmatch(line)
		switch {
		case match != nil:
			out, inside = append(out, match[1]), true
		case inside && strings.HasPrefix(line, "        "):
			out[len(out)-1] += "\n" + strings.TrimSpace(line)
		default:
			inside = false
		}
	}
	return out
}
