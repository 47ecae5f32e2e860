// Package moment reads the times that people type on a command line.
//
// [Parse] reads an instant, [ParseSpan] a span (FROM..TO) and [ParseWithin] a duration from now or
// a calendar period. All read against now, whose time zone is the user's. The grammar is small on
// purpose, because a deletion may follow: text that does not match it whole is an error, and so is
// a time of day that the clocks skip or show twice.
package moment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/policy/lifetime"
)

const forms = `use a time of day (17:00, 5pm), a day (today, tomorrow, friday, 2026-12-24), both (friday 17:00), ` +
	`a duration from now (6h, 1d12h), now, or RFC 3339 (2026-12-24T17:00:00Z)`

// Parse reads an instant: RFC 3339, now, a duration from now, a day, a time of day, or a day and a
// time of day. A time of day without a day is today's, even if it has passed. A weekday is the
// first to come; it is today only with a time of day that has not passed.
func Parse(text string, now time.Time) (time.Time, error) { return parse(text, now, now) }

// parse reads weekdays and times of day as the first after an instant, everything else against now.
func parse(text string, now, after time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, strings.ToUpper(strings.TrimSpace(text))); err == nil {
		return t.In(now.Location()), nil
	}
	words := strings.Fields(strings.ToLower(text))
	switch {
	case len(words) == 0:
		return time.Time{}, errors.New("is empty: " + forms)
	case len(words) > 2:
		return time.Time{}, notATime(text)
	case len(words) == 1 && words[0] == "now":
		return now, nil
	}
	if length, ok, err := readLength(words[0]); ok && len(words) == 1 {
		return now.Add(length), err
	}
	var hour *clock
	if last, ok, err := readClock(words[len(words)-1]); err != nil {
		return time.Time{}, err
	} else if ok {
		hour, words = &last, words[:len(words)-1]
	}
	switch {
	case len(words) == 0:
		t, err := hour.on(after)
		if err == nil && after != now && !t.After(after) {
			t, err = hour.on(dayOf(after, 1))
		}
		return t, err
	case len(words) > 1:
		return time.Time{}, notATime(text)
	}
	day, weekday, err := readDay(words[0], now, after)
	switch {
	case errors.Is(err, errNoDay):
		return time.Time{}, notATime(text)
	case err != nil:
		return time.Time{}, err
	case hour == nil && weekday && !day.After(after):
		return dayOf(day, 7), nil
	case hour == nil:
		return day, nil
	}
	instant, err := hour.on(day)
	if err == nil && weekday && !instant.After(after) {
		return hour.on(dayOf(day, 7))
	}
	return instant, err
}

// readLength reads a duration with a unit; ok is false for text of another form. Bare seconds,
// which annotations may have, are more often a forgotten unit here.
func readLength(word string) (length time.Duration, ok bool, err error) {
	length, err = lifetime.ParseDuration(word)
	if err != nil {
		return 0, false, nil
	}
	if strings.Trim(word, "0123456789") == "" {
		return 0, true, fmt.Errorf("%q has no unit: write %ss, %[2]sm, %[2]sh or %[2]sd", word, word)
	}
	return length, true, nil
}

func notATime(text string) error { return fmt.Errorf("%q is not a time: %s", text, forms) }

var errNoDay = errors.New("not a day")

// readDay returns the first instant of a day, and whether it was written as a weekday, which is the
// first from an instant on, that instant's day included.
func readDay(word string, now, after time.Time) (day time.Time, weekday bool, err error) {
	switch word {
	case "yesterday":
		return dayOf(now, -1), false, nil
	case "today":
		return dayOf(now, 0), false, nil
	case "tomorrow":
		return dayOf(now, 1), false, nil
	}
	for weekday := time.Sunday; weekday <= time.Saturday; weekday++ {
		if name := strings.ToLower(weekday.String()); word == name || word == name[:3] {
			return dayOf(after, (int(weekday-after.Weekday())+7)%7), true, nil
		}
	}
	t, err := time.Parse(time.DateOnly, word)
	switch {
	case err == nil:
		return begin(t.Year(), t.Month(), t.Day(), now.Location()), false, nil
	case outOfRange(err):
		return time.Time{}, false, fmt.Errorf("%q is not a calendar date", word)
	default:
		return time.Time{}, false, errNoDay
	}
}

// Span is the time from an instant on and before another.
type Span struct {
	From, To time.Time
}

// Contains reports whether an instant lies in the span.
func (s Span) Contains(t time.Time) bool { return !t.Before(s.From) && t.Before(s.To) }

// ParseSpan reads FROM..TO, two instants as [Parse] reads them. A weekday or a time of day as TO is
// the first after FROM.
func ParseSpan(text string, now time.Time) (Span, error) {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return Span{}, fmt.Errorf("%q is not a span of time: write FROM..TO, such as now..friday", text)
	}
	var out Span
	var err error
	if out.From, err = Parse(from, now); err != nil {
		return Span{}, err
	}
	if out.To, err = parse(to, now, out.From); err != nil {
		return Span{}, err
	}
	if !out.From.Before(out.To) {
		return Span{}, fmt.Errorf("%q ends at %s, before it begins at %s: swap them, or use dates",
			text, out.To.Format(time.RFC3339), out.From.Format(time.RFC3339))
	}
	return out, nil
}

// ParseWithin reads a duration from now (6h), which includes its end and overdue objects, or a
// whole day (today, friday, 2026-12-24) or month (2026-05, may). A weekday or a month without a
// year is the current one or the first to come.
func ParseWithin(text string, now time.Time) (Span, error) {
	word := strings.ToLower(strings.TrimSpace(text))
	if length, ok, err := readLength(word); ok {
		return Span{To: now.Add(length).Add(1)}, err
	}
	if t, err := time.Parse("2006-01", word); err == nil {
		return monthOf(now, t.Year(), t.Month()), nil
	}
	for month := time.January; month <= time.December; month++ {
		if name := strings.ToLower(month.String()); word == name || word == name[:3] {
			year := now.Year()
			if month < now.Month() {
				year++
			}
			return monthOf(now, year, month), nil
		}
	}
	day, _, err := readDay(word, now, now)
	switch {
	case errors.Is(err, errNoDay):
		return Span{}, fmt.Errorf("%q is neither a duration nor a period: use a duration (6h, 1d12h), "+
			"a day (today, friday, 2026-12-24) or a month (may, 2026-05)", text)
	case err != nil:
		return Span{}, err
	}
	return Span{day, dayOf(day, 1)}, nil
}

func monthOf(now time.Time, year int, month time.Month) Span {
	return Span{begin(year, month, 1, now.Location()), begin(year, month+1, 1, now.Location())}
}

// clock is a time of day.
type clock struct {
	hour, minute, second int
}

// readClock reads a time of day: 17:00, 17:00:30, 5pm or 5:30pm. ok is false for a word of another
// form; err explains why a time of day does not exist.
func readClock(word string) (out clock, ok bool, err error) {
	layouts, fix := []string{"15:04", "15:04:05"}, "use 00:00 to 23:59"
	switch half := strings.TrimLeft(word, "0123456789:"); {
	case half == "am" || half == "pm":
		layouts, fix = []string{"3pm", "3:04pm"}, "use 1am to 12pm"
	case half != "" || !strings.Contains(word, ":"):
		return clock{}, false, nil
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, word)
		// Go reads 0am as midnight.
		if outOfRange(err) || err == nil && layout[0] == '3' && t.Hour()%12 == 0 && word[0] == '0' {
			return clock{}, true, fmt.Errorf("%q is not a time of day: %s", word, fix)
		}
		if err == nil {
			return clock{t.Hour(), t.Minute(), t.Second()}, true, nil
		}
	}
	return clock{}, false, nil
}

// on is the instant at which the clocks show the time on a day. Where they are put forward or back
// there may be none or two, which is an error.
func (c clock) on(day time.Time) (time.Time, error) {
	year, month, date := day.Date()
	t := time.Date(year, month, date, c.hour, c.minute, c.second, 0, day.Location())
	if !c.shownAt(t) {
		return time.Time{}, fmt.Errorf("the clocks of %s do not show %s on %s: use another time", zone(t), c, day.Format(time.DateOnly))
	}
	for _, step := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} { // by as much as clocks are changed anywhere
		for _, other := range []time.Time{t.Add(-step), t.Add(step)} {
			if !c.shownAt(other) || other.Day() != t.Day() {
				continue
			}
			both := []time.Time{t, other}
			slices.SortFunc(both, time.Time.Compare)
			return time.Time{}, fmt.Errorf("the clocks of %s show %s twice on %s: use RFC 3339, %s or %s",
				zone(t), c, day.Format(time.DateOnly), both[0].Format(time.RFC3339), both[1].Format(time.RFC3339))
		}
	}
	return t, nil
}

func (c clock) shownAt(t time.Time) bool {
	hour, minute, second := t.Clock()
	return hour == c.hour && minute == c.minute && second == c.second
}

// String is 17:00, with seconds where there are any.
func (c clock) String() string {
	if c.second > 0 {
		return fmt.Sprintf("%02d:%02d:%02d", c.hour, c.minute, c.second)
	}
	return fmt.Sprintf("%02d:%02d", c.hour, c.minute)
}

// zone names the time zone of an instant: Europe/Berlin or, where the system does not tell, CET.
func zone(t time.Time) string {
	if name := t.Location().String(); name != "Local" && name != "" {
		return name
	}
	name, _ := t.Zone()
	return name
}

// outOfRange tells a date or time that does not exist from text of another form.
func outOfRange(err error) bool {
	var refused *time.ParseError
	return errors.As(err, &refused) && strings.HasSuffix(refused.Message, "out of range")
}

// dayOf is the first instant of the day that an instant lies in, or of a day so many days later.
func dayOf(t time.Time, later int) time.Time {
	year, month, date := t.Date()
	return begin(year, month, date+later, t.Location())
}

// begin is the first instant of a day. That is not midnight where the clocks are put forward just
// then, and [time.Date] may answer with the evening before.
func begin(year int, month time.Month, date int, zone *time.Location) time.Time {
	t := time.Date(year, month, date, 0, 0, 0, 0, zone)
	if t.Hour() == 0 && t.Minute() == 0 {
		return t
	}
	changed, next := t.ZoneBounds()
	if t.Day() != time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Day() {
		changed = next
	}
	return changed.In(zone)
}
