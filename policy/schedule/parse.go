package schedule

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxLength is the limit of the CRD. It bounds the cost of parsing a schedule.
const maxLength = 256

// descriptors are the forms without fields. The parser knows "@every", too: an interval without a
// fixed start, which would begin again with each restart of Curfew.
var descriptors = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// Parse reads a schedule and the IANA name of its time zone; an empty name means UTC.
func Parse(schedule, timeZone string) (*Schedule, error) {
	location, err := parseZone(timeZone)
	if err != nil {
		return nil, err
	}
	calendar, err := parseFields(schedule)
	if err != nil {
		return nil, err
	}
	return &Schedule{calendar: calendar, location: location}, nil
}

func parseFields(schedule string) (calendar, error) {
	if len(schedule) > maxLength {
		return calendar{}, fmt.Errorf("schedule has %d characters; at most %d are allowed", len(schedule), maxLength)
	}
	// The parser panics on "TZ=" without a space.
	if strings.Contains(schedule, "TZ=") {
		return calendar{}, fmt.Errorf("schedule %q names a time zone; set spec.timeZone instead", schedule)
	}
	text := strings.TrimSpace(schedule)
	if strings.HasPrefix(text, "@") {
		var known bool
		if text, known = descriptors[text]; !known {
			return calendar{}, fmt.Errorf("schedule %q is not one of @hourly, @daily, @midnight, @weekly, @monthly, "+
				"@yearly, @annually; write five cron fields instead", schedule)
		}
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return calendar{}, fmt.Errorf("schedule %q has %d fields, not 5: minute, hour, day of month, month, day of week",
			schedule, len(fields))
	}
	bits, err := parseBits(fields)
	if err != nil {
		return calendar{}, fmt.Errorf("schedule %q: %w", schedule, err)
	}
	return newCalendar(bits), nil
}

// parseBits parses one field at a time, so that an error names its field.
func parseBits(fields []string) ([5]uint64, error) {
	var bits [5]uint64
	for i, field := range []struct {
		name   string
		option cron.ParseOption
		bits   func(*cron.SpecSchedule) uint64
	}{
		{"minute", cron.Minute, func(s *cron.SpecSchedule) uint64 { return s.Minute }},
		{"hour", cron.Hour, func(s *cron.SpecSchedule) uint64 { return s.Hour }},
		{"day of month", cron.Dom, func(s *cron.SpecSchedule) uint64 { return s.Dom }},
		{"month", cron.Month, func(s *cron.SpecSchedule) uint64 { return s.Month }},
		{"day of week", cron.Dow, func(s *cron.SpecSchedule) uint64 { return s.Dow }},
	} {
		parsed, err := cron.NewParser(field.option).Parse(fields[i])
		if err != nil {
			return bits, fmt.Errorf("%s: %w", field.name, err)
		}
		spec, ok := parsed.(*cron.SpecSchedule)
		if !ok {
			return bits, fmt.Errorf("%s: %q is not a cron field", field.name, fields[i])
		}
		// "," is a list without items to the parser: a field that matches nothing.
		if bits[i] = field.bits(spec); bits[i] == 0 {
			return bits, fmt.Errorf("%s: %q names no value", field.name, fields[i])
		}
	}
	return bits, nil
}

var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// parseZone accepts the same names on every machine. Many systems have further files beside the
// zones: copies without leap seconds or with them, and the machine's own zone.
func parseZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	first, _, _ := strings.Cut(strings.ToLower(name), "/")
	switch first {
	case "local", "localtime", "posix", "posixrules", "right":
		return nil, fmt.Errorf("time zone %q depends on the machine; write an IANA name such as Europe/Berlin", short(name))
	}
	if len(name) > 64 || !zoneName.MatchString(name) {
		return nil, fmt.Errorf("time zone %q is not an IANA name such as Europe/Berlin", short(name))
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known; write an IANA name such as Europe/Berlin", name)
	}
	return location, nil
}

func short(text string) string {
	if len(text) > 64 {
		return text[:64] + "…"
	}
	return text
}
