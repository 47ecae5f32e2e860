package schedule

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// MaxMissed bounds what [Schedule.Latest] counts.
const MaxMissed = 100

// maxYear is the last year that RFC 3339, and so a status, can hold.
const maxYear = 9999

// maxShift is more than a clock ever was set back, and more than any offset from UTC.
const maxShift = 26 * time.Hour

// Schedule is a parsed schedule. The times that it returns are in its time zone.
type Schedule struct {
	calendar
	location *time.Location
}

// Location is the time zone of the schedule.
func (s *Schedule) Location() *time.Location { return s.location }

// Never reports whether the schedule never fires, such as on 31 February.
func (s *Schedule) Never() bool {
	return s.nextDay(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}

// MinInterval returns the shortest time between two runs, exactly: from the minutes of a day, and
// for the last and the first run of a day from the days of the calendar. It uses the wall clock.
// A change of the clock can bring two runs closer on that day.
func (s *Schedule) MinInterval() time.Duration { return s.minInterval() }

// Next returns the first run after the given time, or the zero time if there is none.
func (s *Schedule) Next(after time.Time) time.Time {
	if after.Year() > maxYear {
		return time.Time{}
	}
	if s.everyHour() {
		return s.nextShown(after)
	}
	wall := s.next(s.furthest(after))
	if wall.IsZero() {
		return wall
	}
	return s.reached(wall)
}

// Upcoming returns the next n runs after the given time, or as many as there are.
func (s *Schedule) Upcoming(after time.Time, n int) []time.Time {
	var times []time.Time
	for range n {
		if after = s.Next(after); after.IsZero() {
			break
		}
		times = append(times, after)
	}
	return times
}

// Latest returns the last run that was due after one time and not after another, and how many
// before it were missed. It counts at most [MaxMissed]. Without a run the time is zero.
//
// It halves the time that is left until no run is in it, so years without a run cost no more than
// a minute.
func (s *Schedule) Latest(after, now time.Time) (t time.Time, missed int) {
	due := func(from time.Time) time.Time {
		if next := s.Next(from); !next.IsZero() && !next.After(now) {
			return next
		}
		return time.Time{}
	}
	first := due(after)
	if first.IsZero() {
		return first, 0
	}
	t = first
	for end := now; end.Sub(t) > time.Minute; {
		middle := t.Add(end.Sub(t) / 2)
		if next := due(middle); !next.IsZero() {
			t = next
		} else {
			end = middle
		}
	}
	for next := due(t); !next.IsZero(); next = due(t) {
		t = next
	}
	for run := first; run.Before(t) && missed < MaxMissed; run = s.Next(run) {
		missed++
	}
	return t, missed
}

// wall is the clock time at an instant, written as if it were in UTC.
func (s *Schedule) wall(t time.Time) time.Time { return t.UTC().Add(s.offset(t)) }

func (s *Schedule) offset(t time.Time) time.Duration {
	_, seconds := t.In(s.location).Zone()
	return time.Duration(seconds) * time.Second
}

// zoneEnd is when the offset from UTC may change next, or the zero time.
//
// On 31 December of leap years, the ZoneBounds of Go 1.26 ends at the start of that day: not after
// the time that was asked for. Then it goes on hour by hour.
func (s *Schedule) zoneEnd(t time.Time) time.Time {
	_, end := t.In(s.location).ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.Add(time.Hour)
	}
	return end
}

// furthest is the latest time that the clock has shown so far. After the clock was set back, that
// is later than what it shows now.
func (s *Schedule) furthest(t time.Time) time.Time {
	wall := s.wall(t)
	for from := t; ; {
		start, _ := from.In(s.location).ZoneBounds()
		before := start.Add(-1)
		if start.IsZero() || !before.Before(from) || t.Sub(start) > 2*maxShift {
			return wall
		}
		if shown := s.wall(before); shown.After(wall) {
			wall = shown
		}
		from = before
	}
}

// reached is the instant at which the clock first shows the given time or a later one.
func (s *Schedule) reached(wall time.Time) time.Time {
	for from := wall.Add(-maxShift); ; {
		t := wall.Add(-s.offset(from))
		if t.Before(from) {
			t = from // The clock skipped it.
		}
		end := s.zoneEnd(from)
		if end.IsZero() || t.Before(end) {
			return t.In(s.location)
		}
		from = end
	}
}

// nextShown is the next instant at which the clock shows a matching time, be it skipped or repeated
// on other days.
func (s *Schedule) nextShown(after time.Time) time.Time {
	for from, shown := after, s.wall(after); ; {
		wall := s.next(shown)
		if wall.IsZero() {
			return wall
		}
		t, end := wall.Add(-s.offset(from)), s.zoneEnd(from)
		if end.IsZero() || t.Before(end) {
			return t.In(s.location)
		}
		from, shown = end, s.wall(end).Add(-1)
	}
}

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
