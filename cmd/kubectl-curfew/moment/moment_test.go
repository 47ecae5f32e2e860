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
		"now":                  "Wed 2026-11-18 15:30:00 CET",
		"17:00":                "Wed 2026-11-18 17:00:00 CET",
		"9:00":                 "Wed 2026-11-18 09:00:00 CET", // over: who asks has to say so
		"17:00:30":             "Wed 2026-11-18 17:00:30 CET",
		"5pm":                  "Wed 2026-11-18 17:00:00 CET",
		"5 pm":                 "Wed 2026-11-18 17:00:00 CET",
		"5:30PM":               "Wed 2026-11-18 17:30:00 CET",
		"12am":                 "Wed 2026-11-18 00:00:00 CET",
		"12pm":                 "Wed 2026-11-18 12:00:00 CET",
		"noon":                 "Wed 2026-11-18 12:00:00 CET",
		"midnight":             "Wed 2026-11-18 00:00:00 CET",
		"today":                "Wed 2026-11-18 00:00:00 CET",
		"tomorrow":             "Thu 2026-11-19 00:00:00 CET",
		"yesterday":            "Tue 2026-11-17 00:00:00 CET",
		"tomorrow noon":        "Thu 2026-11-19 12:00:00 CET",
		"tomorrow at 9am":      "Thu 2026-11-19 09:00:00 CET",
		"9am tomorrow":         "Thu 2026-11-19 09:00:00 CET",
		"9:00 on friday":       "Fri 2026-11-20 09:00:00 CET",
		"friday":               "Fri 2026-11-20 00:00:00 CET",
		"Friday 17:00":         "Fri 2026-11-20 17:00:00 CET",
		"fri 5pm":              "Fri 2026-11-20 17:00:00 CET",
		"wednesday":            "Wed 2026-11-25 00:00:00 CET",
		"wednesday 16:00":      "Wed 2026-11-18 16:00:00 CET",
		"wednesday 15:30":      "Wed 2026-11-25 15:30:00 CET",
		"tuesday":              "Tue 2026-11-24 00:00:00 CET",
		"2026-12-24":           "Thu 2026-12-24 00:00:00 CET",
		"2026-12-24 17:00":     "Thu 2026-12-24 17:00:00 CET",
		"24 december":          "Thu 2026-12-24 00:00:00 CET",
		"dec 24th, noon":       "Thu 2026-12-24 12:00:00 CET",
		"december 24 2028":     "Sun 2028-12-24 00:00:00 CET",
		"1 november":           "Mon 2027-11-01 00:00:00 CET",
		"18 november 16:00":    "Wed 2026-11-18 16:00:00 CET",
		"18 november 15:00":    "Thu 2027-11-18 15:00:00 CET",
		"29 feb 2028":          "Tue 2028-02-29 00:00:00 CET",
		"in 6h":                "Wed 2026-11-18 21:30:00 CET",
		"in 1d12h":             "Fri 2026-11-20 03:30:00 CET",
		"2026-12-24T17:00:00Z": "Thu 2026-12-24 18:00:00 CET",
		"1 july 12:00":         "Thu 2027-07-01 12:00:00 CEST",
	} {
		have, err := Parse(text, wednesday(t))
		if err != nil || have.Format(shown) != want {
			t.Errorf("%q: %s, %v, want %s", text, have.Format(shown), err, want)
		}
	}
}

// TestParseRefuses: what means nothing, or two things, is told so, with what to write instead.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "is empty: use a time",
		"soon":                `"soon" is no instant: use a time (17:00`,
		"fridayy":             `"fridayy" is no instant`,
		"friday 17:00 please": `"please" is not understood in "friday 17:00 please"`,
		"friday 5":            `"5" is not understood`,
		"friday at":           "a time of day has to follow at",
		"friday 13pm":         `"13pm" is no time of day: use 1am to 12pm`,
		"0am":                 `"0am" is no time of day`,
		"25:00":               `"25:00" is no time of day: use 00:00 to 23:59`,
		"17:99":               `"17:99" is no time of day`,
		"24:00":               `"24:00" is no time of day`,
		"17":                  `"17" is a length of time: write "in 17"`,
		"6h":                  `"6h" is a length of time: write "in 6h"`,
		"in 5 bananas":        `"in 5 bananas" is no instant`,
		"in 5x":               `unit "x" is unknown`,
		"next friday":         `"next friday" may mean two days: use friday for the first one to come, or a date`,
		"last friday":         `"last friday" may mean two days`,
		"february 30":         `"february 30" is no day of the calendar`,
		"29 feb":              `"29 feb" is no day of the calendar`,
		"2026-02-30":          `"2026-02-30" is no day of the calendar`,
		"2026-13-01":          `"2026-13-01" is no day of the calendar`,
		"18 november":         `"18 november" is today, and may mean next year's: write today, or add the year`,
		"31 november":         `"31 november" is no day of the calendar`,
		"monday tuesday":      `"tuesday" is not understood`,
		"2026-12-24T17:00":    "is no instant",
	} {
		if have, err := Parse(text, wednesday(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v, want %q", text, have.Format(shown), err, want)
		}
	}
	leap := time.Date(2028, 1, 1, 0, 0, 0, 0, berlin(t))
	if _, err := Parse("29 feb", leap); err == nil || !strings.Contains(err.Error(), `"29 feb" is no day of the calendar of every year: add the year`) {
		t.Errorf("29 feb in 2028: %v", err)
	}
}

// TestClocksThatAreChanged: on 2027-03-28 02:30 is left out in Berlin, on 2026-10-25 it is there twice.
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
		got := have.Format(shown)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]string{
		"now..friday 17:00":         "Wed 2026-11-18 15:30:00 CET - Fri 2026-11-20 17:00:00 CET",
		"now .. in 6h":              "Wed 2026-11-18 15:30:00 CET - Wed 2026-11-18 21:30:00 CET",
		"9:00..17:00":               "Wed 2026-11-18 09:00:00 CET - Wed 2026-11-18 17:00:00 CET",
		"22:00..6:00":               "Wed 2026-11-18 22:00:00 CET - Thu 2026-11-19 06:00:00 CET",
		"tomorrow 9:00..17:00":      "Thu 2026-11-19 09:00:00 CET - Thu 2026-11-19 17:00:00 CET",
		"monday..friday":            "Mon 2026-11-23 00:00:00 CET - Fri 2026-11-27 00:00:00 CET",
		"friday..monday":            "Fri 2026-11-20 00:00:00 CET - Mon 2026-11-23 00:00:00 CET",
		"today..tomorrow":           "Wed 2026-11-18 00:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"tomorrow..tomorrow 12:00":  "Thu 2026-11-19 00:00:00 CET - Thu 2026-11-19 12:00:00 CET",
		"2026-05-01..2026-06-01":    "Fri 2026-05-01 00:00:00 CEST - Mon 2026-06-01 00:00:00 CEST",
		"24 december..26 december":  "Thu 2026-12-24 00:00:00 CET - Sat 2026-12-26 00:00:00 CET",
		"24 december..1 january":    "Thu 2026-12-24 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"now..friday":               "Wed 2026-11-18 15:30:00 CET - Fri 2026-11-20 00:00:00 CET",
		"wednesday 16:00..thursday": "Wed 2026-11-18 16:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"now":                       `"now" is no span of time: write FROM..TO, such as now..friday`,
		"now..":                     "is empty: ",
		"..now":                     "is empty: ",
		"now..soon":                 `"soon" is no instant`,
		"tomorrow..today":           `"tomorrow..today" ends at 2026-11-18T00:00:00+01:00, before it begins at 2026-11-19T00:00:00+01:00: swap them, or use dates`,
		"now..now":                  "before it begins",
	} {
		have, err := ParseSpan(text, wednesday(t))
		got := have.From.Format(shown) + " - " + have.To.Format(shown)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]string{
		"2026-05":     "Fri 2026-05-01 00:00:00 CEST - Mon 2026-06-01 00:00:00 CEST",
		"may":         "Sat 2027-05-01 00:00:00 CEST - Tue 2027-06-01 00:00:00 CEST",
		"november":    "Sun 2026-11-01 00:00:00 CET - Tue 2026-12-01 00:00:00 CET",
		"dec":         "Tue 2026-12-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"May 2026":    "Fri 2026-05-01 00:00:00 CEST - Mon 2026-06-01 00:00:00 CEST",
		"2026":        "Thu 2026-01-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"today":       "Wed 2026-11-18 00:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"wednesday":   "Wed 2026-11-18 00:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"friday":      "Fri 2026-11-20 00:00:00 CET - Sat 2026-11-21 00:00:00 CET",
		"2026-12-24":  "Thu 2026-12-24 00:00:00 CET - Fri 2026-12-25 00:00:00 CET",
		"24 december": "Thu 2026-12-24 00:00:00 CET - Fri 2026-12-25 00:00:00 CET",
		"this week":   "Mon 2026-11-16 00:00:00 CET - Mon 2026-11-23 00:00:00 CET",
		"next  week":  "Mon 2026-11-23 00:00:00 CET - Mon 2026-11-30 00:00:00 CET",
		"this month":  "Sun 2026-11-01 00:00:00 CET - Tue 2026-12-01 00:00:00 CET",
		"next month":  "Tue 2026-12-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"this year":   "Thu 2026-01-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"next year":   "Fri 2027-01-01 00:00:00 CET - Sat 2028-01-01 00:00:00 CET",
		"2026-13":     `"2026-13" is no month: use 2026-01 to 2026-12`,
		"soon":        `"soon" is no period: use a day (today`,
		"friday 5pm":  `"friday 5pm" is no period`,
		"17:00":       `"17:00" is no period`,
		"next friday": "may mean two days",
		" ":           "is empty: use a day",
	} {
		have, err := ParsePeriod(text, wednesday(t))
		got := have.From.Format(shown) + " - " + have.To.Format(shown)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	sunday := time.Date(2026, 11, 22, 23, 0, 0, 0, time.UTC)
	if have, err := ParsePeriod("this week", sunday); err != nil || have.From.Format(shown) != "Mon 2026-11-16 00:00:00 UTC" || !have.Contains(sunday) || have.Contains(have.To) {
		t.Errorf("this week on a Sunday: %v, %v", have, err)
	}
}

// FuzzParse holds that whatever is read is an instant of some sense, and that a span lies in its order.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"friday 17:00", "in 6h", "now..friday", "24 december 2026, noon", "may", "9 am on mon", "2026-12-24T17:00:00+01:00", "1st jan..2 feb"} {
		f.Add(text)
	}
	now := wednesday(f)
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := Parse(text, now); err == nil && (at.IsZero() || at.Location() != now.Location()) {
			t.Errorf("%q: %v", text, at)
		}
		for _, parse := range []func(string, time.Time) (Span, error){ParseSpan, ParsePeriod} {
			if span, err := parse(text, now); err == nil && !span.From.Before(span.To) {
				t.Errorf("%q: %v", text, span)
			}
		}
	})
}
