package session

import (
	"strings"

	"curfew.dev/curfew/policy/judging"
)

// Triggers returns the names of the triggers by which objects become due.
func Triggers() (names []string) {
	for _, info := range judging.Triggers() {
		if info.Verb != "" {
			names = append(names, string(info.Name))
		}
	}
	return names
}

// EitherOf writes names as a choice: a, b or c.
func EitherOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
