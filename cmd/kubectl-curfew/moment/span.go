package moment

import (
	"fmt"
	"strings"
	"time"
)

// Span is the time from an instant on and before another.
type Span struct {
	From, To time.Time
}

// Contains reports whether an instant lies in the span.
func (s Span) Contains(at time.Time) bool { return !at.Before(s.From) && at.Before(s.To) }

// ParseSpan reads A..B, two instants as [Parse] reads them. A weekday or a time of day as the end is the first after the beginning.
func ParseSpan(text string, now time.Time) (Span, error) {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return Span{}, fmt.Errorf("%q is no span of time: write FROM..TO, such as now..friday", text)
	}
	var out Span
	var err error
	if out.From, err = Parse(from, now); err != nil {
		return Span{}, err
	}
	if out.To, err = parse(to, now, out.From, true); err != nil {
		return Span{}, err
	}
	if !out.From.Before(out.To) {
		return Span{}, fmt.Errorf("%q ends at %s, before it begins at %s: swap them, or use dates", text, out.To.Format(time.RFC3339), out.From.Format(time.RFC3339))
	}
	return out, nil
}

// ParsePeriod reads a period of the calendar, whole, in the time zone of now: a day (today, tomorrow, friday, 2026-12-24), a week
// (this week, next week; from Monday on), a month (may, may 2026, 2026-05, this month, next month), or a year (2026, this year,
// next year). A month without a year is the one that it is or the first to come.
func ParsePeriod(text string, now time.Time) (Span, error) {
	words := words(text)
	if len(words) == 0 {
		return Span{}, fmt.Errorf("is empty: use %s", periods)
	}
	if out, ok := calendarSpan(strings.Join(words, " "), now); ok {
		return out, nil
	}
	if out, ok, err := monthSpan(words, now); ok || err != nil {
		return out, err
	}
	of, took, err := readDay(words, now)
	if err != nil {
		return Span{}, fmt.Errorf("%q cannot be read: %w", text, err)
	}
	if took != len(words) || took == 0 {
		return Span{}, fmt.Errorf("%q is no period: use %s", text, periods)
	}
	return Span{of.begins, dayOf(of.begins, 1)}, nil
}

const periods = "a day (today, friday, 2026-12-24), a week (this week, next week), a month (may, 2026-05, next month) or a year (2026)"

// calendarSpan reads this week, next month and the like.
func calendarSpan(text string, now time.Time) (Span, bool) {
	monday := dayOf(now, -(int(now.Weekday())+6)%7)
	switch text {
	case "this week":
		return Span{monday, dayOf(monday, 7)}, true
	case "next week":
		return Span{dayOf(monday, 7), dayOf(monday, 14)}, true
	case "this month":
		return month(now, now.Year(), now.Month()), true
	case "next month":
		return month(now, now.Year(), now.Month()+1), true
	case "this year":
		return year(now, now.Year()), true
	case "next year":
		return year(now, now.Year()+1), true
	}
	return Span{}, false
}

// monthSpan reads 2026, 2026-05, may and may 2026.
func monthSpan(words []string, now time.Time) (Span, bool, error) {
	named, isMonth := months[words[0]]
	switch {
	case len(words) == 1 && isoYear.MatchString(words[0]):
		return year(now, number(words[0])), true, nil
	case len(words) == 1 && isMonth:
		of := now.Year()
		if named < now.Month() {
			of++
		}
		return month(now, of, named), true, nil
	case len(words) == 2 && isMonth && isoYear.MatchString(words[1]):
		return month(now, number(words[1]), named), true, nil
	case len(words) == 1:
		found := isoMonth.FindStringSubmatch(words[0])
		if found == nil {
			return Span{}, false, nil
		}
		of := number(found[2])
		if of < 1 || of > 12 {
			return Span{}, true, fmt.Errorf("%q is no month: use 2026-01 to 2026-12", words[0])
		}
		return month(now, number(found[1]), time.Month(of)), true, nil
	}
	return Span{}, false, nil
}

func month(now time.Time, of int, named time.Month) Span {
	return Span{time.Date(of, named, 1, 0, 0, 0, 0, now.Location()), time.Date(of, named+1, 1, 0, 0, 0, 0, now.Location())}
}

func year(now time.Time, of int) Span {
	return Span{time.Date(of, 1, 1, 0, 0, 0, 0, now.Location()), time.Date(of+1, 1, 1, 0, 0, 0, 0, now.Location())}
}
