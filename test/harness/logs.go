package harness

import (
	"os"
	"strings"
)

// Tail is the last lines of a file, or why it cannot be read: for messages about failures.
func Tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
