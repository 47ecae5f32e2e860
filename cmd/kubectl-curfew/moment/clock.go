package moment

import (
	"fmt"
	"strings"
	"time"
)

// clock is a time of day.
type clock struct {
	hour, minute, second int
}

// readClock reads words that are a time of day and nothing else: 17:00, 17:00:30, 5pm, 5:30 pm, noon, midnight, at 17:00. err says what
// is wrong with one.
func readClock(words []string) (out clock, ok bool, err error) {
	if len(words) > 1 && words[0] == "at" {
		words = words[1:]
	}
	text := strings.Join(words, " ")
	switch half := strings.Trim(text, "0123456789:"); {
	case text == "noon":
		return clock{hour: 12}, true, nil
	case text == "midnight":
		return clock{}, true, nil
	case half == "" && strings.Contains(text, ":"):
		return byLayout(text, "use 00:00 to 23:59", "15:04", "15:04:05")
	case half == "am" || half == "pm" || half == " am" || half == " pm":
		out, ok, err = byLayout(text, "use 1am to 12pm", "3pm", "3 pm", "3:04pm", "3:04 pm")
		if ok && err == nil && out.hour%12 == 0 && text[0] == '0' {
			err = fmt.Errorf("%q is no time of day: use 1am to 12pm", text)
		}
		return out, ok, err
	default:
		return clock{}, false, nil
	}
}

// byLayout reads a time of day by the layout that it has. Go's parser takes a time whole or not at all.
func byLayout(text, fix string, layouts ...string) (out clock, ok bool, err error) {
	for _, layout := range layouts {
		at, err := time.Parse(layout, text)
		switch {
		case err == nil:
			return clock{at.Hour(), at.Minute(), at.Second()}, true, nil
		case outOfRange(err):
			return clock{}, true, fmt.Errorf("%q is no time of day: %s", text, fix)
		}
	}
	return clock{}, false, nil
}

// on is the instant at which the clocks show the time on a day. Where they are put forward or back that may be none or two.
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
