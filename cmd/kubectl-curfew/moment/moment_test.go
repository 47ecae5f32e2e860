package moment

import (
	"strings"
	"testing"
	"time"

	_ "time/tzdata" // the tests' zones, wherever they run
)

func berlin(t testing.TB) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// wednesday is when most rows take place: 2026-11-18 15:30 in Berlin.
func wednesday(t testing.TB) time.Time { return time.Date(2026, 11, 18, 15, 30, 0, 0, berlin(t)) }

const shown = "Mon 2006-01-02 15:04:05 MST"

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"now":                       "Wed 2026-11-18 15:30:00 CET",
		"17:00":                     "Wed 2026-11-18 17:00:00 CET",
		"9:00":                      "Wed 2026-11-18 09:00:00 CET", // passed: the caller says so
		"5pm":                       "Wed 2026-11-18 17:00:00 CET",
		"12am":                      "Wed 2026-11-18 00:00:00 CET",
		"12pm":                      "Wed 2026-11-18 12:00:00 CET",
		"today":                     "Wed 2026-11-18 00:00:00 CET",
		"tomorrow":                  "Thu 2026-11-19 00:00:00 CET",
		"yesterday":                 "Tue 2026-11-17 00:00:00 CET",
		"tomorrow 9am":              "Thu 2026-11-19 09:00:00 CET",
		" Friday  17:00 ":           "Fri 2026-11-20 17:00:00 CET",
		"friday":                    "Fri 2026-11-20 00:00:00 CET",
		"wednesday":                 "Wed 2026-11-25 00:00:00 CET",
		"wednesday 16:00":           "Wed 2026-11-18 16:00:00 CET",
		"wednesday 15:30":           "Wed 2026-11-25 15:30:00 CET",
		"tuesday":                   "Tue 2026-11-24 00:00:00 CET",
		"2026-12-24":                "Thu 2026-12-24 00:00:00 CET",
		"6h":                        "Wed 2026-11-18 21:30:00 CET",
		"0s":                        "Wed 2026-11-18 15:30:00 CET",
		"2026-12-24T17:00:00Z":      "Thu 2026-12-24 18:00:00 CET",
		"2026-12-24t17:00:00+02:00": "Thu 2026-12-24 16:00:00 CET",
	} {
		have, err := Parse(text, wednesday(t))
		if err != nil || have.Format(shown) != want {
			t.Errorf("%q: %s, %v, want %s", text, have.Format(shown), err, want)
		}
	}
}

// TestParseRefuses: text without a meaning, or with two, is an error that says how to write a time.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "is empty: use a time of day (17:00",
		"soon":                `"soon" is not a time: use a time of day (17:00`,
		"friday 17:00 please": `"friday 17:00 please" is not a time`,
		"friday 5":            `"friday 5" is not a time`,
		"friday 13pm":         `"13pm" is not a time of day: use 1am to 12pm`,
		"00:30am":             `"00:30am" is not a time of day`,
		"25:00":               `"25:00" is not a time of day: use 00:00 to 23:59`,
		"17":                  `"17" has no unit: write 17s, 17m, 17h or 17d`,
		"next friday":         `"next friday" is not a time`,
		"9am est":             `"9am est" is not a time`,
		"may":                 `"may" is not a time`,
		"17:00:00.5":          `"17:00:00.5" is not a time`,
		"2026-02-30":          `"2026-02-30" is not a calendar date`,
		"2026-12-24T17:00":    "is not a time",
		"9999999999h":         "is not a time",
		"never":               "is not a time",
	} {
		if have, err := Parse(text, wednesday(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v, want %q", text, have.Format(shown), err, want)
		}
	}
}

// TestClocksThatAreChanged: on 2027-03-28 02:30 is left out in Berlin, on 2026-10-25 it is there
// twice.
func TestClocksThatAreChanged(t *testing.T) {
	now := time.Date(2026, 10, 1, 0, 0, 0, 0, berlin(t))
	for text, want := range map[string]string{
		"2027-03-28 2:30":           "the clocks of Europe/Berlin do not show 02:30 on 2027-03-28: use another time",
		"2026-10-25 2:30":           "the clocks of Europe/Berlin show 02:30 twice on 2026-10-25: use RFC 3339, 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00",
		"2026-10-25 3:00":           "Sun 2026-10-25 03:00:00 CET",
		"2026-10-25 1:59":           "Sun 2026-10-25 01:59:00 CEST",
		"2026-10-25T02:30:00+01:00": "Sun 2026-10-25 02:30:00 CET",
		"2027-03-28 3:00":           "Sun 2027-03-28 03:00:00 CEST",
	} {
		have, err := Parse(text, now)
		got := told(have.Format(shown), err)
		if !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]string{
		"now..friday 17:00":         "Wed 2026-11-18 15:30:00 CET - Fri 2026-11-20 17:00:00 CET",
		"now .. 6h":                 "Wed 2026-11-18 15:30:00 CET - Wed 2026-11-18 21:30:00 CET",
		"22:00..6:00":               "Wed 2026-11-18 22:00:00 CET - Thu 2026-11-19 06:00:00 CET",
		"tomorrow 9:00..17:00":      "Thu 2026-11-19 09:00:00 CET - Thu 2026-11-19 17:00:00 CET",
		"monday..friday":            "Mon 2026-11-23 00:00:00 CET - Fri 2026-11-27 00:00:00 CET",
		"friday..monday":            "Fri 2026-11-20 00:00:00 CET - Mon 2026-11-23 00:00:00 CET",
		"2026-05-01..2026-06-01":    "Fri 2026-05-01 00:00:00 CEST - Mon 2026-06-01 00:00:00 CEST",
		"wednesday 16:00..thursday": "Wed 2026-11-18 16:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"friday 12:00..friday":      "Fri 2026-11-20 12:00:00 CET - Fri 2026-11-27 00:00:00 CET",
		"now":                       `"now" is not a span of time: write FROM..TO, such as now..friday`,
		"..now":                     "is empty: ",
		"now..soon":                 `"soon" is not a time`,
		"tomorrow..today":           `"tomorrow..today" ends at 2026-11-18T00:00:00+01:00, before it begins at 2026-11-19T00:00:00+01:00: swap them, or use dates`,
		"now..now":                  "before it begins",
	} {
		have, err := ParseSpan(text, wednesday(t))
		got := told(have.From.Format(shown)+" - "+have.To.Format(shown), err)
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestParseWithin(t *testing.T) {
	for text, want := range map[string]string{
		"2026-05":    "Fri 2026-05-01 00:00:00 CEST - Mon 2026-06-01 00:00:00 CEST",
		"may":        "Sat 2027-05-01 00:00:00 CEST - Tue 2027-06-01 00:00:00 CEST",
		"dec":        "Tue 2026-12-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"6h":         "UTC - Wed 2026-11-18 21:30:00 CET", // and all before it
		"2026":       `"2026" has no unit: write 2026s, 2026m, 2026h or 2026d`,
		"today":      "Wed 2026-11-18 00:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"friday":     "Fri 2026-11-20 00:00:00 CET - Sat 2026-11-21 00:00:00 CET",
		"2026-12-24": "Thu 2026-12-24 00:00:00 CET - Fri 2026-12-25 00:00:00 CET",
		"2026-13-01": `"2026-13-01" is not a calendar date`,
		"may june":   `"may june" is neither a duration nor a period`,
		"soon":       `"soon" is neither a duration nor a period: use a duration (6h, 1d12h), a day (today`,
		"17:00":      `"17:00" is neither a duration nor a period`,
		" ":          `" " is neither a duration nor a period`,
	} {
		have, err := ParseWithin(text, wednesday(t))
		got := told(have.From.Format(shown)+" - "+have.To.Format(shown), err)
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	day, err := ParseWithin("today", wednesday(t))
	if err != nil || !day.Contains(wednesday(t)) || !day.Contains(day.From) || day.Contains(day.To) {
		t.Errorf("today is %v, error %v; want a span with %v and its begin, without its end", day, err, wednesday(t))
	}
}

// TestAllYear: at any time of the year, days are calendar days and times are the times of the
// clocks, though not every day has 24 hours. A weekday or time is the first to come.
func TestAllYear(t *testing.T) {
	zone := berlin(t)
	for instant := time.Date(2026, 11, 18, 0, 30, 0, 0, zone); instant.Before(time.Date(2027, 11, 18, 0, 30, 0, 0, zone)); instant = instant.Add(7 * time.Hour) {
		for text, row := range map[string]struct {
			layout, want string
			within       time.Duration
		}{
			"friday 17:00":   {"Mon 15:04:05", "Fri 17:00:00", 7*24*time.Hour + time.Hour},
			"monday 9am":     {"Mon 15:04:05", "Mon 09:00:00", 7*24*time.Hour + time.Hour},
			"sunday":         {"Mon 15:04:05", "Sun 00:00:00", 7*24*time.Hour + time.Hour},
			"tomorrow 12:00": {"2006-01-02 15:04:05", instant.AddDate(0, 0, 1).Format(time.DateOnly) + " 12:00:00", 37 * time.Hour},
		} {
			have, err := Parse(text, instant)
			if err != nil || have.Format(row.layout) != row.want || !have.After(instant) || have.Sub(instant) > row.within {
				t.Errorf("at %s %q is %s, error %v; want %s within %s", instant, text, have, err, row.want, row.within)
			}
		}
	}
}

// TestDaysThatBeginLate: where clocks are put forward at midnight, a day begins at one. Elsewhere
// they are changed by other than an hour.
func TestDaysThatBeginLate(t *testing.T) {
	for value, want := range map[string]string{
		"America/Santiago: 2027-09-05":         "Sun 2027-09-05 01:00:00 -03",
		"America/Santiago: sunday":             "Sun 2027-09-05 01:00:00 -03",
		"America/Santiago: sunday 00:00":       "the clocks of America/Santiago do not show 00:00 on 2027-09-05",
		"America/Santiago: sunday 8:00":        "Sun 2027-09-05 08:00:00 -03",
		"Asia/Beirut: 2028-03-26":              "Sun 2028-03-26 01:00:00 EEST",
		"Australia/Lord_Howe: 2028-04-02 1:45": "show 01:45 twice on 2028-04-02: use RFC 3339, 2028-04-02T01:45:00+11:00 or 2028-04-02T01:45:00+10:30",
		"Antarctica/Troll: 2027-10-31 2:30":    "show 02:30 twice on 2027-10-31",
	} {
		name, text, _ := strings.Cut(value, ": ")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		have, err := Parse(text, time.Date(2027, 9, 1, 12, 0, 0, 0, zone))
		got := told(have.Format(shown), err)
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// told is a time, or why there is none.
func told(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}
