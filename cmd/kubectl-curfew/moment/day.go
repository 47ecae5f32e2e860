package moment

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var (
	isoDate  = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
	isoMonth = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})$`)
	isoYear  = regexp.MustCompile(`^[0-9]{4}$`)
	dayWord  = regexp.MustCompile(`^([0-9]{1,2})(?:st|nd|rd|th)?$`)
)

var weekdays = names(time.Sunday, time.Saturday)

var months = names(time.January, time.December)

// names are weekdays or months by their names and first three letters.
func names[T interface {
	~int
	fmt.Stringer
}](first, last T) map[string]T {
	out := map[string]T{}
	for each := first; each <= last; each++ {
		name := strings.ToLower(each.String())
		out[name], out[name[:3]] = each, each
	}
	return out
}

// day is a day as it was written. A weekday or a date without a year means the next one, which depends on the time of day.
type day struct {
	begins time.Time
	// again is the day that is meant where the time of day has passed on the first; zero where there is but one.
	again time.Time
	// bare says why the day cannot stand without a time of day; nil where it can.
	bare error
}

// readDay reads a day at the beginning of some words and tells how many of them it took; 0 means that they begin with none.
func readDay(words []string, now time.Time) (out day, took int, err error) {
	first := words[0]
	switch first {
	case "today":
		return day{begins: dayOf(now, 0)}, 1, nil
	case "tomorrow":
		return day{begins: dayOf(now, 1)}, 1, nil
	case "yesterday":
		return day{begins: dayOf(now, -1)}, 1, nil
	case "next", "this", "last", "coming":
		if len(words) > 1 {
			if _, ok := weekdays[words[1]]; ok {
				return day{}, 0, fmt.Errorf("%q may mean two days: use %s for the first one to come, or a date", first+" "+words[1], words[1])
			}
		}
	}
	if weekday, ok := weekdays[first]; ok {
		ahead := (int(weekday) - int(now.Weekday()) + 7) % 7
		out := day{begins: dayOf(now, ahead)}
		if ahead == 0 {
			out.again = dayOf(now, 7)
		}
		return out, 1, nil
	}
	if isoDate.MatchString(first) {
		at, err := time.ParseInLocation(time.DateOnly, first, now.Location())
		if err != nil {
			return day{}, 0, fmt.Errorf("%q is no day of the calendar", first)
		}
		return day{begins: at}, 1, nil
	}
	return readMonthDay(words, now)
}

// readMonthDay reads 24 december, december 24, dec 24 2026.
func readMonthDay(words []string, now time.Time) (out day, took int, err error) {
	if len(words) < 2 {
		return day{}, 0, nil
	}
	month, isMonth := months[words[0]]
	date := dayWord.FindStringSubmatch(words[1])
	if !isMonth || date == nil {
		month, isMonth = months[words[1]]
		date = dayWord.FindStringSubmatch(words[0])
		if !isMonth || date == nil {
			return day{}, 0, nil
		}
	}
	took, year := 2, now.Year()
	if len(words) > 2 && isoYear.MatchString(words[2]) {
		took, year = 3, number(words[2])
	}
	of := func(year int) (time.Time, error) {
		at := time.Date(year, month, number(date[1]), 0, 0, 0, 0, now.Location())
		if at.Month() != month || at.Day() != number(date[1]) {
			return time.Time{}, fmt.Errorf("%q is no day of the calendar", strings.Join(words[:took], " "))
		}
		return at, nil
	}
	begins, err := of(year)
	if err != nil || took == 3 {
		return day{begins: begins}, took, err
	}
	again, err := of(year + 1)
	if err != nil {
		return day{}, took, fmt.Errorf("%w of every year: add the year", err)
	}
	if begins.Before(dayOf(now, 0)) {
		return day{begins: again}, took, nil
	}
	out = day{begins: begins, again: again}
	if begins.Equal(dayOf(now, 0)) {
		out.bare = fmt.Errorf("%q is today, and may mean next year's: write today, or add the year", strings.Join(words[:took], " "))
	}
	return out, took, nil
}
