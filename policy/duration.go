package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxDuration is the longest duration that fits the native integer fields of Kubernetes (int32 seconds, 68 years).
const MaxDuration = math.MaxInt32 * time.Second

const (
	day  = 24 * time.Hour
	week = 7 * day
)

const durationFix = `use seconds (90) or units s, m, h, d, w (1h30m, 7d)`

// ParseDuration reads a duration as Curfew's annotations write it: a bare integer is seconds, anything else is a Go
// duration ([time.ParseDuration]) that knows the units d and w as well, such as 90s, 1h30m, 1.5h, 7d or 2w.
//
// Only whole seconds between 0 and [MaxDuration] are durations; the error names the text and the fix.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New("is empty: " + durationFix)
	}
	if strings.HasPrefix(text, "-") {
		return 0, fmt.Errorf("%q is negative: a duration is 0 or more", text)
	}
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		if seconds > uint64(MaxDuration/time.Second) {
			return 0, tooLong(text)
		}
		return time.Duration(seconds) * time.Second, nil
	} else if errors.Is(err, strconv.ErrRange) {
		return 0, tooLong(text)
	}
	var total time.Duration
	for rest := text; rest != ""; {
		digits := strings.IndexFunc(rest, isUnit)
		if digits <= 0 {
			return 0, fmt.Errorf("%q is not a duration: %s", text, durationFix)
		}
		end := digits + strings.IndexFunc(rest[digits:]+"0", func(r rune) bool { return !isUnit(r) })
		part, err := parsePart(rest[:digits], rest[digits:end])
		if errors.Is(err, errTooLong) {
			return 0, tooLong(text)
		}
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w; %s", text, err, durationFix)
		}
		if total += part; total > MaxDuration {
			return 0, tooLong(text)
		}
		rest = rest[end:]
	}
	if total%time.Second != 0 {
		return 0, fmt.Errorf("%q is not a whole number of seconds: %s", text, durationFix)
	}
	return total, nil
}

var errTooLong = errors.New("too long")

func isUnit(r rune) bool { return (r < '0' || r > '9') && r != '.' }

// parsePart reads one number with its unit. Days and weeks are so many hours, so that Go's parser does the digits.
func parsePart(number, unit string) (time.Duration, error) {
	times := time.Duration(1)
	goUnit := unit
	switch unit {
	case "d":
		times, goUnit = day/time.Hour, "h"
	case "w":
		times, goUnit = week/time.Hour, "h"
	case "s", "m", "h", "ms", "us", "µs", "μs", "ns": // Both signs for micro, as Go reads them.
	default:
		return 0, fmt.Errorf("unit %q is unknown", unit)
	}
	part, err := time.ParseDuration(number + goUnit)
	if err != nil {
		// Go's only other complaint about digits is that there are too many of them.
		if strings.Count(number, ".") > 1 || number == "." {
			return 0, fmt.Errorf("%q is not a number", number)
		}
		return 0, errTooLong
	}
	if part > MaxDuration/times {
		return 0, errTooLong
	}
	return part * times, nil
}

func tooLong(text string) error {
	return fmt.Errorf("%q is too long: at most %ds (68 years) fit the native fields", text, int64(MaxDuration/time.Second))
}

// TTL says how long something may stay once it has finished: for a duration, or for good.
type TTL struct {
	// Never means that it stays until somebody else deletes it; After is then zero.
	Never bool
	// After is counted from the finish time, in whole seconds.
	After time.Duration
}

// NeverText is how authors write that an object has no TTL.
const NeverText = "never"

// ParseTTL reads a duration as [ParseDuration] does, or the word "never".
func ParseTTL(text string) (TTL, error) {
	if text == NeverText {
		return TTL{Never: true}, nil
	}
	after, err := ParseDuration(text)
	if err != nil {
		return TTL{}, fmt.Errorf("%w, or %s", err, NeverText)
	}
	return TTL{After: after}, nil
}

// Seconds is the TTL as the native fields hold it. It has no meaning for a TTL that is Never.
func (t TTL) Seconds() int64 { return int64(t.After / time.Second) }

// String is the shortest text that [ParseTTL] reads back to the same TTL.
func (t TTL) String() string {
	if t.Never {
		return NeverText
	}
	return FormatDuration(t.After)
}

// FormatDuration is the shortest text that [ParseDuration] reads back to the same duration: 1d, 1h30m, 90s as 1m30s.
// Weeks are written in days, because "14d" is read without counting.
func FormatDuration(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	var out strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&out, "%d%s", n, unit.name)
			d -= n * unit.size
		}
	}
	return out.String()
}

// FormatSeconds writes whole seconds the way people and machines both read them: "86400 (1d)".
func FormatSeconds(d time.Duration) string {
	return fmt.Sprintf("%d (%s)", int64(d/time.Second), FormatDuration(d))
}
