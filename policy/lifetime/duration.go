package lifetime

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/wellknown"
)

// MaxDuration is the longest duration that fits the native integer fields of Kubernetes (int32
// seconds, 68 years).
const MaxDuration = math.MaxInt32 * time.Second

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// MaxDurationText is the longest text that is read. Every duration within MaxDuration is far
// shorter, and a label cannot be longer. The length is checked before any work on the text (S9).
const MaxDurationText = 63

const durationFix = `use seconds (90) or units s, m, h, d, w (1h30m, 7d)`

// units of Curfew's grammar: Go's, and d and w. Go reads both signs for micro.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "w": week,
}

// errSyntax marks errors about a text that is not a duration at all, as opposed to one out of
// range.
var errSyntax = errors.New("is not a duration")

// ParseDuration reads a duration as annotations, labels, flags and Curfew's kinds write it. A bare
// integer is seconds. Anything else is a Go duration ([time.ParseDuration]) that also knows the
// units d and w: 90s, 1h30m, 1.5h, 7d, 2w.
//
// Only whole seconds between 0 and [MaxDuration] are accepted, and nothing is rounded. The error
// names the text and the fix.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New("is empty: " + durationFix)
	}
	if err := checkLength(text); err != nil {
		return 0, err
	}
	if text[0] == '-' {
		return 0, fmt.Errorf("%q is negative: a duration is 0 or more", text)
	}
	if digits(text) == len(text) {
		return sumOfParts(text, text+"s", units)
	}
	sum, err := sumOfParts(text, text, units)
	switch {
	case !errors.Is(err, errSyntax):
		return sum, err
	case readable(plain(text)):
		return 0, fmt.Errorf("%q %w: write %q, without spaces", text, errSyntax, plain(text))
	case isDate(text):
		return 0, fmt.Errorf("%q is a date, which only label %s can hold: %s", text, wellknown.LabelTTL, durationFix)
	default:
		return 0, err
	}
}

func checkLength(text string) error {
	if len(text) > MaxDurationText {
		return fmt.Errorf("%q has more than %d characters: %s", quote.Shorten(text), MaxDurationText, durationFix)
	}
	return nil
}

// plain is a text without spaces. It keeps the case: who writes 1M may mean a month.
func plain(text string) string { return strings.Join(strings.Fields(text), "") }

func readable(text string) bool {
	if text == "" {
		return false
	}
	if digits(text) == len(text) {
		text += "s"
	}
	_, err := sumOfParts(text, text, units)
	return err == nil
}

// sumOfParts adds up numbers with their units, in one pass. The text is what errors quote.
func sumOfParts(text, rest string, units map[string]time.Duration) (time.Duration, error) {
	var total time.Duration
	for rest != "" {
		whole := digits(rest)
		fraction := ""
		end := whole
		if end < len(rest) && rest[end] == '.' {
			end++
			fraction = rest[end : end+digits(rest[end:])]
			end += len(fraction)
		}
		name := end + unitLength(rest[end:])
		unit, known := units[rest[end:name]]
		switch {
		case whole+len(fraction) == 0, name == end:
			return 0, fmt.Errorf("%q %w: %s", text, errSyntax, durationFix)
		case !known:
			return 0, fmt.Errorf("%q %w: unit %q is unknown; %s", text, errSyntax, rest[end:name], durationFix)
		}
		part, exact := timesUnit(rest[:whole], fraction, unit)
		if !exact {
			return 0, fmt.Errorf("%q is not a whole number of seconds: %s", text, durationFix)
		}
		// Neither is above the maximum, so that the sum does not overflow.
		if total += part; total > MaxDuration {
			return 0, fmt.Errorf("%q is too long: at most %ds (68 years)", text, int64(MaxDuration/time.Second))
		}
		rest = rest[name:]
	}
	if total%time.Second != 0 {
		return 0, fmt.Errorf("%q is not a whole number of seconds: %s", text, durationFix)
	}
	return total, nil
}

// digits is how many digits a text begins with.
func digits(text string) int {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

func unitLength(text string) int {
	n := 0
	for n < len(text) && (text[n] < '0' || text[n] > '9') && text[n] != '.' {
		n++
	}
	return n
}

// timesUnit multiplies a decimal number with a unit, in integers: rounding would change a lifetime
// silently. A product that is too long is MaxDuration and a second. One that is not a whole number
// of nanoseconds is not exact.
func timesUnit(whole, fraction string, unit time.Duration) (part time.Duration, exact bool) {
	const tooLong = MaxDuration + time.Second
	// #nosec G115 -- both are positive constants.
	most := uint64(tooLong / unit)
	number := uint64(0)
	for _, digit := range []byte(whole) {
		value := uint64(digit - '0')
		if number > (most-value)/10 {
			return tooLong, true
		}
		number = number*10 + value
	}
	fraction = strings.TrimRight(fraction, "0")
	// A week has 2^16 and 5^11 as factors in nanoseconds: after more decimals than that, nothing
	// comes out even.
	if len(fraction) > 16 {
		return 0, false
	}
	numerator, denominator := uint64(0), uint64(1)
	for _, digit := range []byte(fraction) {
		numerator, denominator = numerator*10+uint64(digit-'0'), denominator*10
	}
	// The fraction is below 1, so that the quotient is below the unit and Div64 cannot overflow.
	// #nosec G115 -- a unit is positive.
	high, low := bits.Mul64(numerator, uint64(unit))
	quotient, remainder := bits.Div64(high, low, denominator)
	// #nosec G115 -- number is at most tooLong/unit, and quotient below unit.
	return min(tooLong, time.Duration(number)*unit+time.Duration(quotient)), remainder == 0
}

// TTL says how long an object may stay once it has finished: for a duration, or forever.
type TTL struct {
	// Never means that Curfew never deletes it; After is then zero.
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
	switch {
	case err == nil:
	case len(text) <= MaxDurationText && strings.ToLower(plain(text)) == NeverText:
		return TTL{}, fmt.Errorf("%q %w: write %q, in lower case and without spaces", text, errSyntax, NeverText)
	default:
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

// FormatDuration is the shortest text that [ParseDuration] reads back to the same duration: 1d,
// 1h30m, 90s as 1m30s. Weeks are written in days, because "14d" is read without counting.
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

// ParseTime reads an RFC 3339 time. A longer text is never one, and is not repeated.
func ParseTime(text string) (time.Time, error) {
	if len(text) > quote.MaxValueText {
		return time.Time{}, fmt.Errorf("%q is not an RFC 3339 time", quote.Shorten(text))
	}
	return time.Parse(time.RFC3339, text)
}
