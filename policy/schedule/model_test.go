package schedule_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy/schedule"
)

// shown is what a clock shows: the only thing that the model knows of a time.
type shown struct {
	year, day, hour, minute int
	month                   time.Month
	weekday                 time.Weekday
}

func shownBy(t time.Time) shown {
	year, month, day := t.Date()
	hour, minute, _ := t.Clock()
	return shown{year: year, month: month, day: day, hour: hour, minute: minute, weekday: t.Weekday()}
}

// sample is a schedule, and the same in Go.
type sample struct {
	cron  string
	match func(shown) bool
	// everyHour says that the schedule follows the clock as it shows.
	everyHour bool
}

var samples = []sample{
	{cron: "0 0 * * *", match: func(s shown) bool { return s.hour == 0 && s.minute == 0 }},
	{cron: "@daily", match: func(s shown) bool { return s.hour == 0 && s.minute == 0 }},
	{cron: "30 0 * * *", match: func(s shown) bool { return s.hour == 0 && s.minute == 30 }},
	{cron: "15 2 * * *", match: func(s shown) bool { return s.hour == 2 && s.minute == 15 }},
	{cron: "45 1 * * *", match: func(s shown) bool { return s.hour == 1 && s.minute == 45 }},
	{cron: "30 23 * * *", match: func(s shown) bool { return s.hour == 23 && s.minute == 30 }},
	{cron: "*/15 2 * * *", match: func(s shown) bool { return s.hour == 2 && s.minute%15 == 0 }},
	{cron: "0 */2 * * *", match: func(s shown) bool { return s.hour%2 == 0 && s.minute == 0 }},
	{cron: "10 0-22 * * *", match: func(s shown) bool { return s.hour < 23 && s.minute == 10 }},
	{cron: "0 2 * * SUN", match: func(s shown) bool { return s.weekday == 0 && s.hour == 2 && s.minute == 0 }},
	{cron: "0 0 31 * *", match: func(s shown) bool { return s.day == 31 && s.hour == 0 && s.minute == 0 }},
	{cron: "@monthly", match: func(s shown) bool { return s.day == 1 && s.hour == 0 && s.minute == 0 }},
	{cron: "5 4 13 * 5", match: func(s shown) bool { return (s.day == 13 || s.weekday == time.Friday) && s.hour == 4 && s.minute == 5 }},
	{cron: "0 1-3 8-14 mar,oct ?", match: func(s shown) bool {
		return (s.month == time.March || s.month == time.October) && s.day >= 8 && s.day <= 14 && s.hour >= 1 && s.hour <= 3 && s.minute == 0
	}},
	{cron: "@hourly", everyHour: true, match: func(s shown) bool { return s.minute == 0 }},
	{cron: "30 * * * *", everyHour: true, match: func(s shown) bool { return s.minute == 30 }},
	{cron: "45 0-23 * * 6,0", everyHour: true, match: func(s shown) bool { return s.minute == 45 && (s.weekday == time.Saturday || s.weekday == time.Sunday) }},
	{cron: "7/20 */1 * * *", everyHour: true, match: func(s shown) bool { return s.minute == 7 || s.minute == 27 || s.minute == 47 }},
}

// walk looks at the clock each minute, and returns the runs of every sample. A time that the clock
// passes for the first time is due, be it shown or skipped.
func walk(zone *time.Location, from, to time.Time, samples []sample) [][]time.Time {
	runs := make([][]time.Time, len(samples))
	local := func(t time.Time) time.Time {
		t = t.In(zone)
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	// The clock may have been set back just before.
	furthest := local(from)
	for t := from.Add(-48 * time.Hour); t.Before(from); t = t.Add(time.Minute) {
		if wall := local(t); wall.After(furthest) {
			furthest = wall
		}
	}
	for t := from.Add(time.Minute); !t.After(to); t = t.Add(time.Minute) {
		now := local(t)
		var passed []shown
		for furthest.Before(now) {
			furthest = furthest.Add(time.Minute)
			passed = append(passed, shownBy(furthest))
		}
		for i, sample := range samples {
			due := false
			if sample.everyHour {
				due = sample.match(shownBy(now))
			} else {
				for _, s := range passed {
					due = due || sample.match(s)
				}
			}
			if due {
				runs[i] = append(runs[i], t)
			}
		}
	}
	return runs
}

// Two years in each zone, minute by minute. Every one has changes of its own kind; Apia skips a
// whole day in the first of its years.
func TestTwoYearsAgainstTheClock(t *testing.T) {
	zones := map[string]struct{ from, changes int }{
		"Europe/Berlin":       {2026, 4},
		"America/New_York":    {2027, 4},
		"Australia/Lord_Howe": {2026, 4},
		"Asia/Kolkata":        {2026, 0},
		"Africa/Cairo":        {2026, 4},
		"America/Santiago":    {2026, 4},
		"Pacific/Apia":        {2011, 5},
	}
	for name, zone := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location, err := time.LoadLocation(name)
			must(t, err)
			from := time.Date(zone.from, 1, 1, 0, 0, 0, 0, location)
			to := from.AddDate(2, 0, 0)
			if n := changes(from, to); n != zone.changes {
				t.Fatalf("%d changes of the clock from %s to %s; want %d", n, from, to, zone.changes)
			}
			for i, want := range walk(location, from, to, samples) {
				compare(t, samples[i].cron, name, from, to, want)
			}
		})
	}
}

func changes(from, to time.Time) int {
	n := 0
	for t := from; t.Before(to); t = t.Add(time.Hour) {
		_, before := t.Zone()
		if _, after := t.Add(time.Hour).Zone(); before != after {
			n++
		}
	}
	return n
}

// compare follows Next from run to run, and asks for the latest run before and at each of them.
func compare(t *testing.T, cron, zone string, from, to time.Time, want []time.Time) {
	t.Helper()
	s, err := schedule.Parse(cron, zone)
	must(t, err)
	after := from
	for i, when := range want {
		if got := s.Next(after); !got.Equal(when) {
			t.Fatalf("%s %s: after %s comes %s; want %s", cron, zone, after.In(s.Location()), got, when.In(s.Location()))
		}
		if between := s.Next(after.Add(when.Sub(after) / 2)); !between.Equal(when) {
			t.Fatalf("%s %s: from halfway to %s comes %s", cron, zone, when.In(s.Location()), between)
		}
		if i%97 == 0 {
			latest(t, s, from, when, want[:i+1])
			latest(t, s, from, when.Add(-1), want[:i])
		}
		after = when
	}
	if got := s.Next(after); !got.IsZero() && !got.After(to) {
		t.Fatalf("%s %s: after %s comes %s; want none until %s", cron, zone, after, got, to)
	}
}

func latest(t *testing.T, s *schedule.Schedule, from, now time.Time, want []time.Time) {
	t.Helper()
	when, missed := s.Latest(from, now)
	if len(want) == 0 {
		if !when.IsZero() || missed != 0 {
			t.Fatalf("until %s the latest is %s with %d missed; want none", now, when, missed)
		}
		return
	}
	if last := want[len(want)-1]; !when.Equal(last) || missed != min(len(want)-1, schedule.MaxMissed) {
		t.Fatalf("until %s the latest is %s with %d missed; want %s with %d", now, when, missed, last, len(want)-1)
	}
}
