package lifetime

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

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
		return TTLLabel{}, fmt.Errorf("%q is neither a duration nor a date that Kyverno reads: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)", text)
	}
	if err != nil {
		return TTLLabel{}, err
	}
	return TTLLabel{After: after}, nil
}
