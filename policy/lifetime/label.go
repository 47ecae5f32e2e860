package lifetime

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"curfew.dev/curfew/policy/wellknown"
)

// TTLLabel is the value of label curfew.dev/ttl: a duration from creation, or an instant.
type TTLLabel struct {
	// After creation; zero where the label names an instant.
	After time.Duration
	// At is the instant, in UTC; zero where the label counts from creation.
	At time.Time
}

// Layouts of the instants that the label may name. Labels allow no colons.
const (
	LabelDate = time.DateOnly
	labelTime = "2006-01-02T150405Z"
)

// epoch: a date up to then is a slip, which must not shorten a lifetime (S6). No object is that
// old, and the epoch itself means that no date was set. It also keeps a date distinct from the zero
// time.
var epoch = time.Unix(0, 0)

const labelFix = "use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)"

// ParseLabel reads the value of a TTL label, in the grammar of its key: [wellknown.LabelTTL] or
// [wellknown.LabelKyvernoTTL].
func ParseLabel(key, text string) (TTLLabel, error) {
	if key == wellknown.LabelKyvernoTTL {
		return parseKyvernoLabel(text)
	}
	return ParseTTLLabel(text)
}

// ParseTTLLabel reads the value of label curfew.dev/ttl: a duration from creation as
// [ParseDuration] reads it, a date (2026-12-24, from midnight on) or an instant
// (2026-12-24T003000Z), both in UTC.
func ParseTTLLabel(text string) (TTLLabel, error) {
	if label, ok, err := parseDate(text); ok || err != nil {
		return label, err
	}
	after, err := ParseDuration(text)
	if text == "" || isDate(text) || errors.Is(err, errSyntax) && !readable(strings.ToLower(plain(text))) {
		return TTLLabel{}, fmt.Errorf("%q is neither a duration nor a date: %s", text, labelFix)
	}
	if err != nil {
		return TTLLabel{}, err
	}
	return TTLLabel{After: after}, nil
}

// parseDate reads a date or an instant; ok is false where the text is neither.
func parseDate(text string) (label TTLLabel, ok bool, err error) {
	if len(text) != len(LabelDate) && len(text) != len(labelTime) {
		return TTLLabel{}, false, nil
	}
	for _, layout := range []string{LabelDate, labelTime} {
		// time.Parse also takes fractions of seconds, which are not in the grammar.
		if t, err := time.Parse(layout, text); err == nil && t.Format(layout) == text {
			if !t.After(epoch) {
				return TTLLabel{}, false, fmt.Errorf("%q is not after 1970-01-01: use a later date", text)
			}
			return TTLLabel{At: t}, true, nil
		}
	}
	return TTLLabel{}, false, nil
}

// isDate reports whether a text is a date, as a label or in RFC 3339.
func isDate(text string) bool {
	if len(text) > MaxDurationText {
		return false
	}
	for _, layout := range []string{LabelDate, labelTime, time.RFC3339} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}

// Expiry is the instant at which an object that was created then expires.
func (l TTLLabel) Expiry(created time.Time) time.Time {
	if !l.At.IsZero() {
		return l.At
	}
	return created.Add(l.After)
}

// String writes the label as [ParseLabel] reads it under either key.
func (l TTLLabel) String() string {
	if !l.At.IsZero() {
		if t := l.At.UTC(); t.Equal(t.Truncate(24 * time.Hour)) {
			return t.Format(LabelDate)
		}
		return l.At.UTC().Format(labelTime)
	}
	return FormatDuration(l.After)
}

// kyvernoUnits are the units that Kyverno reads in its label (package strfmt of go-openapi). It
// reads no bare number except 0.
var kyvernoUnits = withNames(map[time.Duration][]string{
	time.Nanosecond:  {"ns", "nano", "nanos", "nanosecond", "nanoseconds"},
	time.Microsecond: {"us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"},
	time.Millisecond: {"ms", "milli", "millis", "millisecond", "milliseconds"},
	time.Second:      {"s", "sec", "secs", "second", "seconds"},
	time.Minute:      {"m", "min", "mins", "minute", "minutes"},
	time.Hour:        {"h", "hr", "hrs", "hour", "hours"},
	day:              {"d", "day", "days"},
	week:             {"w", "wk", "wks", "week", "weeks"},
})

// goUnits are the units that [time.ParseDuration] reads.
var goUnits = func() map[string]time.Duration {
	out := maps.Clone(units)
	delete(out, "d")
	delete(out, "w")
	return out
}()

func withNames(names map[time.Duration][]string) map[string]time.Duration {
	out := map[string]time.Duration{}
	for unit, aliases := range names {
		for _, alias := range aliases {
			out[alias] = unit
		}
	}
	return out
}

// parseKyvernoLabel reads label cleanup.kyverno.io/ttl in Kyverno's own grammar, so that objects
// live as long as before. A value beyond whole seconds and 68 years keeps the object, and is
// reported.
func parseKyvernoLabel(text string) (TTLLabel, error) {
	if err := checkLength(text); err != nil {
		return TTLLabel{}, err
	}
	if text == "0" {
		return TTLLabel{}, nil
	}
	if label, ok, err := parseDate(text); ok || err != nil {
		return label, err
	}
	known := kyvernoUnits
	if strings.Contains(text, ".") {
		known = goUnits // Versions of Kyverno read 1.5d as 36 hours or as 5 days: it is kept.
	}
	after, err := sumOfParts(text, text, known)
	if text == "" || errors.Is(err, errSyntax) {
		return TTLLabel{}, fmt.Errorf("%q is neither a duration nor a date that Kyverno reads: %s", text, labelFix)
	}
	if err != nil {
		return TTLLabel{}, err
	}
	return TTLLabel{After: after}, nil
}
