package schedule_test

import (
	"slices"
	"testing"
	"time"

	"curfew.dev/curfew/policy/schedule"
	"curfew.dev/curfew/test/builders"
)

func parse(t testing.TB, cron, zone string) *schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(cron, zone)
	must(t, err)
	return s
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	must(t, err)
	return when
}

// What the docs promise on the days on which the clock changes, written out.
func TestChangesOfTheClock(t *testing.T) {
	for name, test := range map[string]struct {
		cron, zone, after string
		want              []string
	}{
		"skipped: once, right after the gap":     {"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"several skipped: one run":               {"*/15 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		"repeated: the first time":               {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"repeated: not again when asked between": {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", []string{"2026-10-26T02:30:00+01:00"}},
		"every hour: nothing to make up for":     {"30 * * * *", "Europe/Berlin", "2026-03-29T01:00:00+01:00", []string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"}},
		"every hour: both copies":                {"30 * * * *", "Europe/Berlin", "2026-10-25T02:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"}},
		"every second hour: each time once":      {"0 */2 * * *", "Europe/Berlin", "2026-03-29T00:30:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"}},
		"a skipped midnight":                     {"@daily", "Africa/Cairo", "2026-04-23T12:00:00+02:00", []string{"2026-04-24T01:00:00+03:00"}},
		"a midnight that is not repeated, and an hour that is": {
			"0,30 23 * * *", "Africa/Cairo", "2026-10-29T22:00:00+03:00",
			[]string{"2026-10-29T23:00:00+03:00", "2026-10-29T23:30:00+03:00", "2026-10-30T23:00:00+02:00"},
		},
		"half an hour":  {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		"a skipped day": {"0 6 30 12 *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", []string{"2011-12-31T00:00:00+14:00", "2012-12-30T06:00:00+14:00"}},
		"no zone":       {"0 2 * * *", "", "2026-03-29T01:00:00Z", []string{"2026-03-29T02:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, test.cron, test.zone)
			var got []string
			for _, when := range s.Upcoming(instant(t, test.after), len(test.want)) {
				got = append(got, when.Format(time.RFC3339))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v; want %v", got, test.want)
			}
		})
	}
}

func TestRareDays(t *testing.T) {
	leap := parse(t, "0 0 29 2 *", "")
	if when := leap.Next(instant(t, "2096-03-01T00:00:00Z")); !when.Equal(instant(t, "2104-02-29T00:00:00Z")) {
		t.Errorf("the leap day after 2096 is %s", when)
	}
	if leap.Never() {
		t.Error("29 February never comes")
	}
	for _, cron := range []string{"0 0 31 2 *", "0 0 30 feb *", "0 0 31 4,6,9,11 ?"} {
		s := parse(t, cron, "Europe/Berlin")
		now := instant(t, "2026-01-01T00:00:00Z")
		when, missed := s.Latest(now.AddDate(-20, 0, 0), now)
		if !s.Never() || !s.Next(now).IsZero() || len(s.Upcoming(now, 5)) != 0 || !when.IsZero() || missed != 0 || s.MinInterval() != 0 {
			t.Errorf("%s: never is %v, then %s", cron, s.Never(), s.Next(now))
		}
	}
	if when := leap.Next(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)); !when.IsZero() {
		t.Errorf("after the last year comes %s", when)
	}
}

// A controller that was down for years runs once, and finds out quickly.
func TestLatestAfterYears(t *testing.T) {
	s := parse(t, "*/5 * * * *", "Europe/Berlin")
	now := instant(t, "2026-11-20T10:07:30Z")
	when, missed := s.Latest(now.AddDate(-10, 0, 0), now)
	if !when.Equal(instant(t, "2026-11-20T10:05:00Z")) || missed != schedule.MaxMissed {
		t.Errorf("%s with %d missed", when, missed)
	}
	if when, missed = s.Latest(when, now); !when.IsZero() || missed != 0 {
		t.Errorf("after the catch-up: %s with %d missed", when, missed)
	}
	if when, _ = s.Latest(now, now.Add(-time.Hour)); !when.IsZero() {
		t.Errorf("with a clock that went back: %s", when)
	}
	// The zero time is a policy that has never run.
	when, missed = parse(t, "0 0 1 1 *", "").Latest(time.Time{}, now)
	if !when.Equal(instant(t, "2026-01-01T00:00:00Z")) || missed != schedule.MaxMissed {
		t.Errorf("since the year 1: %s with %d missed", when, missed)
	}
}

func TestMinInterval(t *testing.T) {
	for cron, want := range map[string]time.Duration{
		"* * * * *":           time.Minute,
		"*/5 * * * *":         5 * time.Minute,
		"*/7 * * * *":         4 * time.Minute, // 56, then 0
		"*/7 3 * * *":         7 * time.Minute,
		"0,58 * * * *":        2 * time.Minute,
		"0,58 3,5 * * *":      58 * time.Minute,
		"3,57 0,23 * * *":     6 * time.Minute,
		"1,58 0,23 * * *":     3 * time.Minute,
		"1,58 0,23 * * 1":     57 * time.Minute, // no two days in a row
		"1,58 0,23 1,31 * *":  3 * time.Minute,  // 31 January, then 1 February
		"1,58 0,23 29,1 2,3 ": 0,                // four fields
		"@daily":              24 * time.Hour,
		"@weekly":             7 * 24 * time.Hour,
		"@monthly":            28 * 24 * time.Hour,
		"@yearly":             365 * 24 * time.Hour,
		"0 0 29 2 *":          4*365*24*time.Hour + 24*time.Hour,
		"0 0 29 2 1":          24 * time.Hour, // a Monday before or after it
	} {
		s, err := schedule.Parse(cron, "")
		if want == 0 {
			if err == nil {
				t.Errorf("%s is read", cron)
			}
			continue
		}
		must(t, err)
		if got := s.MinInterval(); got != want {
			t.Errorf("%s: %s; want %s", cron, got, want)
		}
	}
}

// The last day of leap years, on which Go's own bounds of a zone stand still.
func TestLastDayOfLeapYears(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca"} {
		for _, cron := range []string{"30 * * * *", "30 */2 * * *"} {
			s := parse(t, cron, zone)
			for _, year := range []int{2028, 2032, 2040, 2096, 2400} {
				from := time.Date(year, 12, 29, 0, 0, 0, 0, s.Location())
				to := from.AddDate(0, 0, 5)
				want := walk(s.Location(), from, to, []sample{{everyHour: cron == "30 * * * *", match: func(s shown) bool { return s.minute == 30 && (cron == "30 * * * *" || s.hour%2 == 0) }}})[0]
				compare(t, cron, zone, from, to, want)
			}
		}
	}
}

var must = builders.Must
