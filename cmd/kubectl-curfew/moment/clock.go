package moment

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// clock is a time of day.
type clock struct {
	hour, minute, second int
}

var (
	clock24 = regexp.MustCompile(`^([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?$`)
	clock12 = regexp.MustCompile(`^([0-9]{1,2})(?::([0-9]{2}))?(am|pm)$`)
)

// readClock reads 17:00, 17:00:30, 5pm, 5:30pm, noon and midnight. ok is false for what is no time of day; err says what is wrong
// with one.
func readClock(word string) (out clock, ok bool, err error) {
	switch word {
	case "noon":
		return clock{hour: 12}, true, nil
	case "midnight":
		return clock{}, true, nil
	}
	if found := clock24.FindStringSubmatch(word); found != nil {
		out = clock{number(found[1]), number(found[2]), number(found[3])}
		if out.hour > 23 || out.minute > 59 || out.second > 59 {
			return clock{}, true, fmt.Errorf("%q is no time of day: use 00:00 to 23:59", word)
		}
		return out, true, nil
	}
	if found := clock12.FindStringSubmatch(word); found != nil {
		hour, minute := number(found[1]), number(found[2])
		if hour < 1 || hour > 12 || minute > 59 {
			return clock{}, true, fmt.Errorf("%q is no time of day: use 1am to 12pm", word)
		}
		hour %= 12
		if found[3] == "pm" {
			hour += 12
		}
		return clock{hour: hour, minute: minute}, true, nil
	}
	return clock{}, false, nil
}

// number is of digits alone, few enough not to overflow; "" is 0.
func number(digits string) int {
	out, _ := strconv.Atoi(digits)
	return out
}

// on is the instant at which the clocks show the time on a day. Where they are put forward or back that may be none or two.
func (c clock) on(day time.Time) (time.Time, error) {
	year, month, date := day.Date()
	at := time.Date(year, month, date, c.hour, c.minute, c.second, 0, day.Location())
	if !c.shownAt(at) {
		return time.Time{}, fmt.Errorf("the clocks of %s do not show %s on %s: use another time", zone(at), c, at.Format(time.DateOnly))
	}
	for _, other := range []time.Time{at.Add(-time.Hour), at.Add(time.Hour)} {
		if c.shownAt(other) && other.Day() == at.Day() {
			return time.Time{}, fmt.Errorf("the clocks of %s show %s twice on %s: use RFC 3339, %s or %s",
				zone(at), c, at.Format(time.DateOnly), earlier(at, other).Format(time.RFC3339), later(at, other).Format(time.RFC3339))
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

// dayOf is the beginning of the day that an instant lies in, and that of one so many days later. A day begins when the clocks
// first show it.
func dayOf(at time.Time, later int) time.Time {
	year, month, date := at.Date()
	return time.Date(year, month, date+later, 0, 0, 0, 0, at.Location())
}
