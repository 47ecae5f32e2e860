package moment

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// forms is what to write instead of what is not understood.
const forms = `use a time (17:00, 5pm, noon), a day (today, tomorrow, friday, 2026-12-24, 24 december), both (friday 17:00), ` +
	`a length of time (in 6h, in 3 hours), the end of a period (end of may), now, or RFC 3339 (2026-12-24T17:00:00Z)`

// Parse reads an instant. The time zone of now holds where the text names none. A time of day is that of today, over or not; a
// weekday, or a date without a year, means the first to come, today included while the time of day has not passed.
func Parse(text string, now time.Time) (time.Time, error) {
	return reader{now: now, against: now}.read(text)
}

// reader reads instants against now, and weekdays and times of day against another instant: the end of a span lies after its beginning.
type reader struct {
	now, against time.Time
	// after means that a time of day is the first after that instant, not that of its day.
	after bool
}

func (r reader) read(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, strings.ToUpper(strings.TrimSpace(text))); err == nil {
		return at.In(r.now.Location()), nil
	}
	words := words(text)
	if len(words) == 0 {
		return time.Time{}, errors.New("is empty: " + forms)
	}
	at, ok, err := r.instant(words)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("%q cannot be read: %w", text, err)
	case !ok:
		return time.Time{}, r.notUnderstood(words, text)
	default:
		return at, nil
	}
}

// instant reads words that are an instant and nothing else.
func (r reader) instant(words []string) (at time.Time, ok bool, err error) {
	if len(words) == 1 && words[0] == "now" {
		return r.now, true, nil
	}
	if length, ok, err := readLength(words, r.now); ok {
		return r.now.Add(length), true, err
	}
	if len(words) > 2 && words[0] == "end" && words[1] == "of" {
		at, err := endOf(words[2:], r.now)
		return at, err == nil, err
	}
	var refused error
	for of, hour := range cuts(words) {
		switch at, ok, err := r.dayAndClock(of, hour); {
		case ok && err == nil:
			return at, true, nil
		case ok && refused == nil:
			refused = err
		}
	}
	return time.Time{}, refused != nil, refused
}

// cuts are the ways in which words can be a day and a time of day, in either order, or one of them.
func cuts(words []string) iter.Seq2[[]string, []string] {
	return func(yield func(of, hour []string) bool) {
		for i := 1; i <= len(words); i++ {
			if !yield(words[:i], words[i:]) || !yield(words[i:], words[:i]) {
				return
			}
		}
	}
}

// dayAndClock reads words that are a day, and others that are a time of day. There may be none of the one or of the other.
func (r reader) dayAndClock(of, hour []string) (at time.Time, ok bool, err error) {
	var on day
	if len(of) > 0 {
		if on, ok, err = readDay(of, r.now, r.against); !ok {
			return time.Time{}, false, nil
		}
	}
	if len(hour) == 0 {
		if err == nil {
			at, err = on.alone(r.against)
		}
		return at, true, err
	}
	clock, ok, wrong := readClock(hour)
	switch {
	case !ok:
		return time.Time{}, false, nil
	case err != nil:
		return time.Time{}, true, err
	case wrong != nil:
		return time.Time{}, true, wrong
	case len(of) > 0:
		at, err = on.at(clock, r.against)
		return at, true, err
	}
	at, err = clock.on(dayOf(r.against, 0))
	if err == nil && r.after && !at.After(r.against) {
		at, err = clock.on(dayOf(r.against, 1))
	}
	return at, true, err
}

// notUnderstood says which words cannot be placed: those after the longest beginning that is an instant.
func (r reader) notUnderstood(words []string, text string) error {
	for n := len(words) - 1; n > 0; n-- {
		if _, ok, err := r.instant(words[:n]); ok && err == nil {
			return fmt.Errorf("%q is not understood in %q: %s", strings.Join(words[n:], " "), text, forms)
		}
	}
	if _, ok, err := readLength(append([]string{"in"}, words...), r.now); ok && err == nil {
		return fmt.Errorf(`%q is a length of time: write "in %[1]s"`, text)
	}
	return fmt.Errorf("%q is no instant: %s", text, forms)
}

func words(text string) []string {
	return strings.Fields(strings.ToLower(strings.ReplaceAll(text, ",", " ")))
}
