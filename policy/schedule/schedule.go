package schedule

import "time"

// MaxMissed bounds what [Schedule.Latest] counts.
const MaxMissed = 100

// maxYear is the last year that RFC 3339, and so a status, can hold.
const maxYear = 9999

// maxShift is more than a clock ever was set back, and more than any offset from UTC.
const maxShift = 26 * time.Hour

// Schedule is a parsed schedule. The times that it returns are in its time zone.
type Schedule struct {
	calendar
	location *time.Location
}

// Location is the time zone of the schedule.
func (s *Schedule) Location() *time.Location { return s.location }

// Never reports whether the schedule never fires, such as on 31 February.
func (s *Schedule) Never() bool {
	return s.nextDay(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}

// MinInterval returns the shortest time between two runs, exactly: from the minutes of a day, and
// for the last and the first run of a day from the days of the calendar. It uses the wall clock.
// A change of the clock can bring two runs closer on that day.
func (s *Schedule) MinInterval() time.Duration { return s.minInterval() }

// Next returns the first run after the given time, or the zero time if there is none.
func (s *Schedule) Next(after time.Time) time.Time {
	if after.Year() > maxYear {
		return time.Time{}
	}
	if s.everyHour() {
		return s.nextShown(after)
	}
	wall := s.next(s.furthest(after))
	if wall.IsZero() {
		return wall
	}
	return s.reached(wall)
}

// Upcoming returns the next n runs after the given time, or as many as there are.
func (s *Schedule) Upcoming(after time.Time, n int) []time.Time {
	var times []time.Time
	for range n {
		if after = s.Next(after); after.IsZero() {
			break
		}
		times = append(times, after)
	}
	return times
}

// Latest returns the last run that was due after one time and not after another, and how many
// before it were missed. It counts at most [MaxMissed]. Without a run the time is zero.
//
// It halves the time that is left until no run is in it, so years without a run cost no more than
// a minute.
func (s *Schedule) Latest(after, now time.Time) (at time.Time, missed int) {
	due := func(from time.Time) time.Time {
		if next := s.Next(from); !next.IsZero() && !next.After(now) {
			return next
		}
		return time.Time{}
	}
	first := due(after)
	if first.IsZero() {
		return first, 0
	}
	at = first
	for end := now; end.Sub(at) > time.Minute; {
		middle := at.Add(end.Sub(at) / 2)
		if next := due(middle); !next.IsZero() {
			at = next
		} else {
			end = middle
		}
	}
	for next := due(at); !next.IsZero(); next = due(at) {
		at = next
	}
	for run := first; run.Before(at) && missed < MaxMissed; run = s.Next(run) {
		missed++
	}
	return at, missed
}

// wall is the clock time at an instant, written as if it were in UTC.
func (s *Schedule) wall(at time.Time) time.Time { return at.UTC().Add(s.offset(at)) }

func (s *Schedule) offset(at time.Time) time.Duration {
	_, seconds := at.In(s.location).Zone()
	return time.Duration(seconds) * time.Second
}

// zoneEnd is when the offset from UTC may change next, or the zero time.
//
// On 31 December of leap years, the ZoneBounds of Go 1.26 ends at the start of that day: not after
// the time that was asked for. Then it goes on hour by hour.
func (s *Schedule) zoneEnd(at time.Time) time.Time {
	_, end := at.In(s.location).ZoneBounds()
	if !end.IsZero() && !end.After(at) {
		return at.Add(time.Hour)
	}
	return end
}

// furthest is the latest time that the clock has shown so far. After the clock was set back, that
// is later than what it shows now.
func (s *Schedule) furthest(at time.Time) time.Time {
	wall := s.wall(at)
	for from := at; ; {
		start, _ := from.In(s.location).ZoneBounds()
		before := start.Add(-1)
		if start.IsZero() || !before.Before(from) || at.Sub(start) > 2*maxShift {
			return wall
		}
		if shown := s.wall(before); shown.After(wall) {
			wall = shown
		}
		from = before
	}
}

// reached is the instant at which the clock first shows the given time or a later one.
func (s *Schedule) reached(wall time.Time) time.Time {
	for from := wall.Add(-maxShift); ; {
		at := wall.Add(-s.offset(from))
		if at.Before(from) {
			at = from // The clock skipped it.
		}
		end := s.zoneEnd(from)
		if end.IsZero() || at.Before(end) {
			return at.In(s.location)
		}
		from = end
	}
}

// nextShown is the next instant at which the clock shows a matching time, be it skipped or repeated
// on other days.
func (s *Schedule) nextShown(after time.Time) time.Time {
	for from, shown := after, s.wall(after); ; {
		wall := s.next(shown)
		if wall.IsZero() {
			return wall
		}
		at, end := wall.Add(-s.offset(from)), s.zoneEnd(from)
		if end.IsZero() || at.Before(end) {
			return at.In(s.location)
		}
		from, shown = end, s.wall(end).Add(-1)
	}
}
