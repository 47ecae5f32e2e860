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
		"12am tomorrow":        "Thu 2026-11-19 00:00:00 CET",
		"12:30am":              "Wed 2026-11-18 00:30:00 CET",
		"17:00 on friday":      "Fri 2026-11-20 17:00:00 CET",
		"on friday at 17:00":   "Fri 2026-11-20 17:00:00 CET",
		"next tuesday":         "Tue 2026-11-24 00:00:00 CET",
		"next tuesday 9am":     "Tue 2026-11-24 09:00:00 CET",
		"next wednesday":       "Wed 2026-11-25 00:00:00 CET",
		"this friday":          "Fri 2026-11-20 00:00:00 CET",
		"this wednesday 16:00": "Wed 2026-11-18 16:00:00 CET",
		"last friday":          "Fri 2026-11-13 00:00:00 CET", // over: as above
		"24 december 17:00":    "Thu 2026-12-24 17:00:00 CET",
		"24th of december":     "Thu 2026-12-24 00:00:00 CET",
		"first of december":    "Tue 2026-12-01 00:00:00 CET",
		"dec. 24":              "Thu 2026-12-24 00:00:00 CET",
		"24 december 2028 5pm": "Sun 2028-12-24 17:00:00 CET",
		"in 3 hours":           "Wed 2026-11-18 18:30:00 CET",
		"in three hours":       "Wed 2026-11-18 18:30:00 CET",
		"In an Hour":           "Wed 2026-11-18 16:30:00 CET",
		"in 86400 seconds":     "Thu 2026-11-19 15:30:00 CET",
		"in 90 min":            "Wed 2026-11-18 17:00:00 CET",
		"in two weeks":         "Wed 2026-12-02 15:30:00 CET",
		"in 0 hours":           "Wed 2026-11-18 15:30:00 CET",
		"3 days ago":           "Sun 2026-11-15 15:30:00 CET",
		"end of month":         "Tue 2026-12-01 00:00:00 CET",
		"end of the month":     "Tue 2026-12-01 00:00:00 CET",
		"end of may":           "Tue 2027-06-01 00:00:00 CEST",
		"end of may 2028":      "Thu 2028-06-01 00:00:00 CEST",
		"end of day":           "Thu 2026-11-19 00:00:00 CET",
		"end of friday":        "Sat 2026-11-21 00:00:00 CET",
		"end of next week":     "Mon 2026-11-30 00:00:00 CET",
		"end of week":          "Mon 2026-11-23 00:00:00 CET",
		"end of year":          "Fri 2027-01-01 00:00:00 CET",
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
		"":                              "is empty: use a time",
		"soon":                          `"soon" is no instant: use a time (17:00`,
		"fridayy":                       `"fridayy" is no instant`,
		"friday 17:00 please":           `"please" is not understood in "friday 17:00 please"`,
		"friday 5":                      `"5" is not understood`,
		"friday at":                     `"at" is not understood in "friday at"`,
		"friday 13pm":                   `"13pm" is no time of day: use 1am to 12pm`,
		"0am":                           `"0am" is no time of day`,
		"25:00":                         `"25:00" is no time of day: use 00:00 to 23:59`,
		"17:99":                         `"17:99" is no time of day`,
		"24:00":                         `"24:00" is no time of day`,
		"17":                            `"17" is a length of time: write "in 17"`,
		"25":                            `"25" is a length of time: write "in 25"`,
		"3 hours":                       `"3 hours" is a length of time: write "in 3 hours"`,
		"6h":                            `"6h" is a length of time: write "in 6h"`,
		"in 5 bananas":                  `"bananas" is not understood in "in 5 bananas"`,
		"in 5x":                         `unit "x" is unknown`,
		"next friday":                   `"next friday" may mean 2026-11-20 or 2026-11-27: write one of them`,
		"next friday 17:00":             `"next friday" may mean 2026-11-20 or 2026-11-27: write one of them`,
		"next sunday":                   `"next sunday" may mean 2026-11-22 or 2026-11-29: write one of them`,
		"this tuesday":                  `"this tuesday" may mean 2026-11-17 or 2026-11-24: write one of them`,
		"last sunday":                   `"last sunday" may mean 2026-11-08 or 2026-11-15: write one of them`,
		"friday next week":              `"next week" is not understood in "friday next week"`,
		"friday last week":              `"last week" is not understood`,
		"friday x 17:00":                `"x 17:00" is not understood in "friday x 17:00"`,
		"not friday":                    `"not friday" is no instant`,
		"tomorrow friday":               `"friday" is not understood in "tomorrow friday"`,
		"friday the 13th":               `"the 13th" is not understood`,
		"tonight":                       `"tonight" is no instant`,
		"last night":                    `"last night" is no instant`,
		"this evening":                  `"this evening" is no instant`,
		"friday morning":                `"morning" is not understood`,
		"now 17:00":                     `"17:00" is not understood`,
		"now friday":                    `"friday" is not understood`,
		"17:00 18:00":                   `"18:00" is not understood`,
		"9am est":                       `"est" is not understood`,
		"at about 9am":                  `"at about 9am" is no instant`,
		"10/11":                         `"10/11" is no instant`,
		"may":                           `"may" is no instant`,
		"may 17:00":                     `"may 17:00" is no instant`,
		"24 december 17":                `"17" is not understood in "24 december 17"`,
		"24 december 31 2028":           `"31 2028" is not understood`,
		"45 december":                   `"45 december" is no day of the calendar`,
		"200 december":                  `"200 december" is no instant`,
		"0 december":                    `"0 december" is no instant`,
		"in 3 hourſ":                    `"hourſ" is not understood in "in 3 hourſ"`,
		"fridayé":                       `"fridayé" is no instant`,
		"in 2 months":                   `"in 2 months" may mean several lengths of time: use days or weeks, or a date`,
		"in a year":                     `"in a year" may mean several lengths`,
		"in a few hours":                `"in a few hours" is not exact: use numbers, such as in 90m`,
		"in half a minute":              `"in half a minute" is not exact`,
		"half an hour ago":              `"half an hour ago" is not exact`,
		"within 3 hours":                `"within 3 hours" is no instant`,
		"in 3 hours 20":                 `"20" is not understood in "in 3 hours 20"`,
		"in 9999999999 hours":           `"in 9999999999 hours" is too long: at most `,
		"in 99999999999999999999 hours": `"in 99999999999999999999 hours" is no instant`,
		"in 3551 weeks":                 `"in 3551 weeks" is too long`,
		"12:15:99":                      `"12:15:99" is no time of day`,
		"0pm":                           `"0pm" is no time of day`,
		"00:30 am":                      `"00:30 am" is no time of day`,
		"17:00:00.5":                    `"17:00:00.5" is no instant`,
		"end of":                        `"end of" is no instant`,
		"end of time":                   `"time" is no period: use a day`,
		"end of next friday":            `"next friday" may mean`,
		"end of may 17:00":              `"may 17:00" is no period`,
		"february 30":                   `"february 30" is no day of the calendar`,
		"29 feb":                        `"29 feb" is no day of the calendar`,
		"2026-02-30":                    `"2026-02-30" is no day of the calendar`,
		"2026-13-01":                    `"2026-13-01" is no day of the calendar`,
		"18 november":                   `"18 november" is today, and may mean next year's: write today, or add the year`,
		"31 november":                   `"31 november" is no day of the calendar`,
		"monday tuesday":                `"tuesday" is not understood`,
		"2026-12-24T17:00":              "is no instant",
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
		"end of may..end of june":   "Tue 2027-06-01 00:00:00 CEST - Thu 2027-07-01 00:00:00 CEST",
		"monday..next tuesday":      "Mon 2026-11-23 00:00:00 CET - Tue 2026-11-24 00:00:00 CET",
		"an hour ago..now":          "Wed 2026-11-18 14:30:00 CET - Wed 2026-11-18 15:30:00 CET",
		"friday 12:00..friday":      "Fri 2026-11-20 12:00:00 CET - Fri 2026-11-27 00:00:00 CET",
		"friday 12:00..fri 17:00":   "Fri 2026-11-20 12:00:00 CET - Fri 2026-11-20 17:00:00 CET",
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
		"2026-05":      "Fri 2026-05-01 00:00:00 CEST - Mon 2026-06-01 00:00:00 CEST",
		"may":          "Sat 2027-05-01 00:00:00 CEST - Tue 2027-06-01 00:00:00 CEST",
		"november":     "Sun 2026-11-01 00:00:00 CET - Tue 2026-12-01 00:00:00 CET",
		"dec":          "Tue 2026-12-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"May 2026":     "Fri 2026-05-01 00:00:00 CEST - Mon 2026-06-01 00:00:00 CEST",
		"2026":         "Thu 2026-01-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"today":        "Wed 2026-11-18 00:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"wednesday":    "Wed 2026-11-18 00:00:00 CET - Thu 2026-11-19 00:00:00 CET",
		"friday":       "Fri 2026-11-20 00:00:00 CET - Sat 2026-11-21 00:00:00 CET",
		"2026-12-24":   "Thu 2026-12-24 00:00:00 CET - Fri 2026-12-25 00:00:00 CET",
		"24 december":  "Thu 2026-12-24 00:00:00 CET - Fri 2026-12-25 00:00:00 CET",
		"this week":    "Mon 2026-11-16 00:00:00 CET - Mon 2026-11-23 00:00:00 CET",
		"next  week":   "Mon 2026-11-23 00:00:00 CET - Mon 2026-11-30 00:00:00 CET",
		"this month":   "Sun 2026-11-01 00:00:00 CET - Tue 2026-12-01 00:00:00 CET",
		"next month":   "Tue 2026-12-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"this year":    "Thu 2026-01-01 00:00:00 CET - Fri 2027-01-01 00:00:00 CET",
		"next year":    "Fri 2027-01-01 00:00:00 CET - Sat 2028-01-01 00:00:00 CET",
		"next tuesday": "Tue 2026-11-24 00:00:00 CET - Wed 2026-11-25 00:00:00 CET",
		"sept 2026":    "Tue 2026-09-01 00:00:00 CEST - Thu 2026-10-01 00:00:00 CEST",
		"2026-13":      `"2026-13" is no month: use 2026-01 to 2026-12`,
		"2026-13-01":   `"2026-13-01" is no day of the calendar`,
		"this weekend": `"this weekend" is no period`,
		"may june":     `"may june" is no period`,
		"0 december":   `"0 december" is no period`,
		"may 17 18":    `"may 17 18" is no period`,
		"soon":         `"soon" is no period: use a day (today`,
		"friday 5pm":   `"friday 5pm" is no period`,
		"17:00":        `"17:00" is no period`,
		"next friday":  `"next friday" may mean 2026-11-20 or 2026-11-27: write one of them`,
		" ":            "is empty: use a day",
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

// TestAllYear: whenever it is asked, days are those of the calendar and times those that the clocks show, though not every
// day has 24 hours, and what is to come is the first to come.
func TestAllYear(t *testing.T) {
	zone := berlin(t)
	for at := time.Date(2026, 11, 18, 0, 30, 0, 0, zone); at.Before(time.Date(2027, 11, 18, 0, 30, 0, 0, zone)); at = at.Add(7 * time.Hour) {
		for text, of := range map[string]struct {
			layout, want string
			within       time.Duration
		}{
			"friday 17:00":      {"Mon 15:04:05", "Fri 17:00:00", 7*24*time.Hour + time.Hour},
			"on monday at 9am":  {"Mon 15:04:05", "Mon 09:00:00", 7*24*time.Hour + time.Hour},
			"sunday":            {"Mon 15:04:05", "Sun 00:00:00", 7*24*time.Hour + time.Hour},
			"24 february":       {"01-02 15:04:05", "02-24 00:00:00", 366 * 24 * time.Hour},
			"dec 31 at 11:59pm": {"01-02 15:04:05", "12-31 23:59:00", 366 * 24 * time.Hour},
			"tomorrow noon":     {"2006-01-02 15:04:05", at.AddDate(0, 0, 1).Format(time.DateOnly) + " 12:00:00", 37 * time.Hour},
			"end of month":      {"02 15:04:05", "01 00:00:00", 31*24*time.Hour + time.Hour},
		} {
			have, err := Parse(text, at)
			if text == "24 february" && at.Format("01-02") == "02-24" {
				if err == nil || !strings.Contains(err.Error(), "is today, and may mean next year's") {
					t.Errorf("%s: %q: %v, %v", at, text, have, err)
				}
				continue
			}
			if err != nil || have.Format(of.layout) != of.want || !have.After(at) || have.Sub(at) > of.within {
				t.Errorf("%s: %q: %s, %v", at, text, have, err)
			}
		}
	}
}

// TestDaysThatBeginLate: where clocks are put forward at midnight, a day begins at one. Elsewhere they are changed by other than an hour.
func TestDaysThatBeginLate(t *testing.T) {
	for at, want := range map[string]string{
		"America/Santiago: 2027-09-05":         "Sun 2027-09-05 01:00:00 -03",
		"America/Santiago: 5 september":        "Sun 2027-09-05 01:00:00 -03",
		"America/Santiago: sunday":             "Sun 2027-09-05 01:00:00 -03",
		"America/Santiago: end of saturday":    "Sun 2027-09-05 01:00:00 -03",
		"America/Santiago: end of sunday":      "Mon 2027-09-06 00:00:00 -03",
		"America/Santiago: sunday midnight":    "the clocks of America/Santiago do not show 00:00 on 2027-09-05",
		"America/Santiago: sunday 8:00":        "Sun 2027-09-05 08:00:00 -03",
		"Asia/Beirut: 2028-03-26":              "Sun 2028-03-26 01:00:00 EEST",
		"Australia/Lord_Howe: 2028-04-02 1:45": "show 01:45 twice on 2028-04-02: use RFC 3339, 2028-04-02T01:45:00+11:00 or 2028-04-02T01:45:00+10:30",
		"Antarctica/Troll: 2027-10-31 2:30":    "show 02:30 twice on 2027-10-31",
	} {
		name, text, _ := strings.Cut(at, ": ")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		have, err := Parse(text, time.Date(2027, 9, 1, 12, 0, 0, 0, zone))
		got := have.Format(shown)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}
