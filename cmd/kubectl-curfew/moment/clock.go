package moment

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

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
		at, err := time.Parse(layout, word)
		// Go reads 0am as midnight.
		if outOfRange(err) || err == nil && layout[0] == '3' && at.Hour()%12 == 0 && word[0] == '0' {
			return clock{}, true, fmt.Errorf("%q is not a time of day: %s", word, fix)
		}
		if err == nil {
			return clock{at.Hour(), at.Minute(), at.Second()}, true, nil
		}
	}
	return clock{}, false, nil
}

// on is the instant at which the clocks show the time on a day. Where they are put forward or back
// there may be none or two, which is an error.
func (c clock) on(day time.Time) (time.Time, error) {
	year, month, date := day.Date()
	at := time.Date(year, month, date, c.hour, c.minute, c.second, 0, day.Location())
	if !c.shownAt(at) {
		return time.Time{}, fmt.Errorf("the clocks of %s do not show %s on %s: use another time", zone(at), c, day.Format(time.DateOnly))
	}
	for _, step := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} { // by as much as clocks are changed anywhere
		for _, other := range []time.Time{at.Add(-step), at.Add(step)} {
			if !c.shownAt(other) || other.Day() != at.Day() {
				continue
			}
			return time.Time{}, fmt.Errorf("the clocks of %s show %s twice on %s: use RFC 3339, %s or %s",
				zone(at), c, day.Format(time.DateOnly), earlier(at, other).Format(time.RFC3339), later(at, other).Format(time.RFC3339))
		}
	}
	return at, nil
}

func (c clock) shownAt(at time.Time) bool {
	hour, minute, second := at.Clock()
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
func zone(at time.Time) string {
	if name := at.Location().String(); name != "Local" && name != "" {
		return name
	}
	name, _ := at.Zone()
	return name
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// outOfRange tells a date or time that does not exist from text of another form.
func outOfRange(err error) bool {
	var refused *time.ParseError
	return errors.As(err, &refused) && strings.HasSuffix(refused.Message, "out of range")
}

// dayOf is the first instant of the day that an instant lies in, or of a day so many days later.
func dayOf(at time.Time, later int) time.Time {
	year, month, date := at.Date()
	return begin(year, month, date+later, at.Location())
}

// begin is the first instant of a day. That is not midnight where the clocks are put forward just
// then, and [time.Date] may answer with the evening before.
func begin(year int, month time.Month, date int, zone *time.Location) time.Time {
	at := time.Date(year, month, date, 0, 0, 0, 0, zone)
	if at.Hour() == 0 && at.Minute() == 0 {
		return at
	}
	changed, next := at.ZoneBounds()
	if at.Day() != time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Day() {
		changed = next
	}
	return changed.In(zone)
}
