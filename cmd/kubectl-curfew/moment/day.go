package moment

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// day is a day as it was written. A weekday or a date without a year means the next one, which depends on the time of day.
type day struct {
	begins time.Time
	// again is the day that is meant where the time of day has passed on the first; zero where there is but one.
	again time.Time
	// bare says why the day cannot stand without a time of day; nil where it can.
	bare error
}

// readDay reads words that are a day and nothing else. Those that count from today do so from now, the others are the first against an
// instant.
func readDay(words []string, now, against time.Time) (out day, ok bool, err error) {
	if len(words) > 1 && words[0] == "on" {
		words = words[1:]
	}
	if len(words) == 0 {
		return day{}, false, nil
	}
	if at, err := time.Parse(time.DateOnly, words[0]); len(words) == 1 && (err == nil || outOfRange(err)) {
		if err != nil {
			return day{}, true, noDay(words)
		}
		return day{begins: begin(at.Year(), at.Month(), at.Day(), now.Location())}, true, nil
	}
	if days, ok := readCasual(words, now); ok {
		return day{begins: dayOf(now, days)}, true, nil
	}
	if days, first, ok, err := readWeekday(words, against); ok {
		switch {
		case !first: // this or next friday
			days, _, _, err = readWeekday(words, now)
			return day{begins: dayOf(now, days)}, true, err
		case days == 7:
			return day{begins: dayOf(against, 0), again: dayOf(against, 7)}, true, err
		default:
			return day{begins: dayOf(against, days)}, true, err
		}
	}
	return readMonthDay(words, against)
}

// readMonthDay reads 24 december, december 24th, dec 24 2026.
func readMonthDay(words []string, against time.Time) (out day, ok bool, err error) {
	named := words
	year, dated := readYear(words[len(words)-1])
	if dated {
		named = words[:len(words)-1]
	} else {
		year = against.Year()
	}
	month, date, ok := readMonth(named)
	if !ok || date == 0 {
		return day{}, false, nil
	}
	of := func(year int) (time.Time, bool) {
		exists := time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Day() == date
		return begin(year, month, date, against.Location()), exists
	}
	begins, exists := of(year)
	again, everyYear := of(year + 1)
	switch {
	case !exists:
		return day{}, true, noDay(words)
	case dated:
		return day{begins: begins}, true, nil
	case !everyYear:
		return day{}, true, fmt.Errorf("%w of every year: add the year", noDay(words))
	case begins.Before(dayOf(against, 0)):
		return day{begins: again}, true, nil
	}
	out = day{begins: begins, again: again}
	if begins.Equal(dayOf(against, 0)) {
		out.bare = fmt.Errorf("%q is today, and may mean next year's: write today, or add the year", strings.Join(words, " "))
	}
	return out, true, nil
}

// readYear reads four digits.
func readYear(word string) (year int, ok bool) {
	at, err := time.Parse("2006", word)
	return at.Year(), err == nil
}

func noDay(words []string) error {
	return fmt.Errorf("%q is no day of the calendar", strings.Join(words, " "))
}

// outOfRange tells a date or time that does not exist from what is none.
func outOfRange(err error) bool {
	var refused *time.ParseError
	return errors.As(err, &refused) && strings.HasSuffix(refused.Message, "out of range")
}

// at is the time of day on the day, or on the one that is meant where it has passed.
func (d day) at(of clock, against time.Time) (time.Time, error) {
	at, err := of.on(d.begins)
	if err == nil && !d.again.IsZero() && !at.After(against) {
		return of.on(d.again)
	}
	return at, err
}

// alone is the beginning of the day, or of the one that is meant where the first has begun.
func (d day) alone(against time.Time) (time.Time, error) {
	switch {
	case d.bare != nil:
		return time.Time{}, d.bare
	case !d.again.IsZero() && !d.begins.After(against):
		return d.again, nil
	default:
		return d.begins, nil
	}
}

// dayOf is the beginning of the day that an instant lies in, or of that so many days later.
func dayOf(at time.Time, later int) time.Time {
	year, month, date := at.Date()
	return begin(year, month, date+later, at.Location())
}

// begin is the beginning of a day: when the clocks first show it. That is not midnight where they are put forward just then, and
// [time.Date] may answer with the evening before.
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
