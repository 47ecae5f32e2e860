package moment

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
)

// forms is what to write instead of what is not understood.
const forms = `use a time (17:00, 5pm, noon), a day (today, tomorrow, friday, 2026-12-24, 24 december), both (friday 17:00), ` +
	`a length of time (in 6h), now, or RFC 3339 (2026-12-24T17:00:00Z)`

// Parse reads an instant. The time zone of now holds where the text names none. A time of day is that of today, over or not; a
// weekday, or a date without a year, means the first to come, today included while the time of day has not passed.
func Parse(text string, now time.Time) (time.Time, error) {
	return parse(text, now, now, false)
}

// parse reads an instant against now, and weekdays and times of day against from: the end of a span lies after its beginning.
func parse(text string, now, from time.Time, end bool) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, strings.ToUpper(strings.TrimSpace(text))); err == nil {
		return at.In(now.Location()), nil
	}
	words := words(text)
	if len(words) == 0 {
		return time.Time{}, errors.New("is empty: " + forms)
	}
	wrap := func(err error) error {
		return fmt.Errorf("%q cannot be read: %w", text, err)
	}
	switch {
	case len(words) == 1 && words[0] == "now":
		return now, nil
	case len(words) == 2 && words[0] == "in":
		length, err := policy.ParseDuration(words[1])
		if err != nil {
			return time.Time{}, wrap(err)
		}
		return now.Add(length), nil
	}
	against := now
	if end {
		against = from
	}
	at, rest, err := readInstant(words, now, against, end)
	switch {
	case err != nil:
		return time.Time{}, wrap(err)
	case at.IsZero():
		if _, err := policy.ParseDuration(text); err == nil {
			return time.Time{}, fmt.Errorf(`%q is a length of time: write "in %[1]s"`, text)
		}
		return time.Time{}, fmt.Errorf("%q is no instant: %s", text, forms)
	case len(rest) > 0:
		return time.Time{}, fmt.Errorf("%q is not understood in %q: %s", strings.Join(rest, " "), text, forms)
	}
	return at, nil
}

// readInstant reads day [at] clock, clock [on] day, or one of them. The zero time means that the words are neither.
func readInstant(words []string, now, against time.Time, end bool) (time.Time, []string, error) {
	if hour, rest, ok, err := takeClock(words); ok || err != nil {
		if err != nil {
			return errored(err)
		}
		if len(rest) > 0 && rest[0] == "on" {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			at, err := hour.on(dayOf(against, 0))
			if err == nil && end && !at.After(against) {
				at, err = hour.on(dayOf(against, 1))
			}
			return at, nil, err
		}
		of, took, err := readDay(rest, against)
		if err != nil || took == 0 {
			return errored(err)
		}
		at, err := of.at(hour, against)
		return at, rest[took:], err
	}
	of, took, err := readDay(words, dayReference(words[0], now, against))
	if err != nil || took == 0 {
		return errored(err)
	}
	rest := words[took:]
	if len(rest) > 0 && rest[0] == "at" {
		rest = rest[1:]
		if _, _, ok, _ := takeClock(rest); !ok {
			return errored(errors.New("a time of day has to follow at"))
		}
	}
	hour, rest, ok, err := takeClock(rest)
	if err != nil {
		return errored(err)
	}
	if ok {
		at, err := of.at(hour, against)
		return at, rest, err
	}
	if of.bare != nil {
		return errored(of.bare)
	}
	if !of.again.IsZero() && !of.begins.After(against) {
		return of.again, rest, nil
	}
	return of.begins, rest, nil
}

// dayReference: today and its neighbours are those of now, whatever a span begins with.
func dayReference(word string, now, against time.Time) time.Time {
	switch word {
	case "today", "tomorrow", "yesterday":
		return now
	}
	return against
}

func errored(err error) (time.Time, []string, error) { return time.Time{}, nil, err }

// at is the time of day on the day, or on the one that is meant where it has passed.
func (d day) at(of clock, against time.Time) (time.Time, error) {
	at, err := of.on(d.begins)
	if err == nil && !d.again.IsZero() && !at.After(against) {
		return of.on(d.again)
	}
	return at, err
}

// takeClock reads a time of day at the beginning of some words; "5 pm" are two of them.
func takeClock(words []string) (of clock, rest []string, ok bool, err error) {
	if len(words) == 0 {
		return clock{}, words, false, nil
	}
	first, took := words[0], 1
	if len(words) > 1 && (words[1] == "am" || words[1] == "pm") {
		first, took = first+words[1], 2
	}
	of, ok, err = readClock(first)
	if !ok {
		return clock{}, words, false, nil
	}
	return of, words[took:], true, err
}

func words(text string) []string {
	return strings.Fields(strings.ToLower(strings.ReplaceAll(text, ",", " ")))
}
