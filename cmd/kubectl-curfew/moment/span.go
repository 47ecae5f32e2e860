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
	if out.To, err = (reader{now: now, against: out.From, after: true}).read(to); err != nil {
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
	out, ok, err := readPeriod(words, now)
	switch {
	case err != nil:
		return Span{}, fmt.Errorf("%q cannot be read: %w", text, err)
	case !ok:
		return Span{}, fmt.Errorf("%q is no period: use %s", text, periods)
	default:
		return out, nil
	}
}

const periods = "a day (today, friday, 2026-12-24), a week (this week, next week), a month (may, 2026-05, next month) or a year (2026)"

// endOf reads what stands after "end of": a period as [ParsePeriod] reads it, or the one that it is: the month.
func endOf(words []string, now time.Time) (time.Time, error) {
	if len(words) > 1 && words[0] == "the" {
		words = words[1:]
	}
	switch text := strings.Join(words, " "); text {
	case "day":
		words = []string{"today"}
	case "week", "month", "year":
		words = []string{"this", text}
	}
	out, ok, err := readPeriod(words, now)
	if err == nil && !ok {
		err = fmt.Errorf("%q is no period: use %s", strings.Join(words, " "), periods)
	}
	return out.To, err
}

func readPeriod(words []string, now time.Time) (out Span, ok bool, err error) {
	if out, ok := calendarSpan(strings.Join(words, " "), now); ok {
		return out, true, nil
	}
	if out, ok, err := monthSpan(words, now); ok {
		return out, true, err
	}
	of, ok, err := readDay(words, now, now)
	return Span{of.begins, dayOf(of.begins, 1)}, ok, err
}

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
	last := len(words) - 1
	if at, err := time.Parse("2006-01", words[0]); last == 0 && len(words[0]) == 7 && (err == nil || outOfRange(err)) {
		if err != nil {
			return Span{}, true, fmt.Errorf("%q is no month: use 2026-01 to 2026-12", words[0])
		}
		return month(now, at.Year(), at.Month()), true, nil
	}
	named := words
	of, dated := readYear(words[last])
	if dated {
		if named = words[:last]; len(named) == 0 {
			return year(now, of), true, nil
		}
	}
	which, date, ok := readMonth(named)
	switch {
	case !ok || date > 0:
		return Span{}, false, nil
	case dated:
		return month(now, of, which), true, nil
	case which < now.Month():
		return month(now, now.Year()+1, which), true, nil
	default:
		return month(now, now.Year(), which), true, nil
	}
}

func month(now time.Time, of int, named time.Month) Span {
	return Span{begin(of, named, 1, now.Location()), begin(of, named+1, 1, now.Location())}
}

func year(now time.Time, of int) Span {
	return Span{begin(of, time.January, 1, now.Location()), begin(of+1, time.January, 1, now.Location())}
}
