package expression

import (
	"fmt"
	"regexp"
	"time"
)

var labelDuration = regexp.MustCompile(`^([0-9]{1,9}[mhd])+$`)

// checkLabel reports whether a text has the form of the label curfew.dev/ttl. What the label then comes to is for those to say
// who read it.
func checkLabel(text string) error {
	if labelDuration.MatchString(text) {
		return nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T150405Z"} {
		if _, err := time.Parse(layout, text); err == nil {
			return nil
		}
	}
	return fmt.Errorf(`%q is no value of label curfew.dev/ttl: use a time from creation in m, h, d (90m, 1d12h) or a date (2026-12-24, 2026-12-24T003000Z)`, text)
}
