package moment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/olebedev/when/rules"
	"github.com/olebedev/when/rules/en"

	"curfew.dev/curfew/policy"
)

// The rules of the library that are used, one at a time. What they do with what another one has found does not matter then.
var (
	weekdayRule  = en.Weekday(rules.Override)
	casualRule   = en.CasualDate(rules.Override)
	monthDayRule = en.ExactMonthDate(rules.Override)
	aheadRule    = en.Deadline(rules.Override)
	agoRule      = en.PastTime(rules.Override)
)

// read has a rule read words. It returns what the rule took for what, and the fields that it set; nil unless that was all of the words,
// from the first letter to the last.
func read(rule rules.Rule, words []string, now time.Time) (captures []string, found *rules.Context) {
	text := strings.Join(words, " ")
	if strings.ContainsFunc(text, func(r rune) bool { return r > '~' }) {
		return nil, nil // The rules take some letters that are not English for others.
	}
	match := rule.Find(text)
	if match == nil || match.Left != 0 || match.Right != len(text) {
		return nil, nil
	}
	found = &rules.Context{Text: text}
	if ok, err := match.Apply(found, &rules.Options{}, now); err != nil || !ok {
		return nil, nil // Its errors are about digits that it cannot count, and meant for nobody.
	}
	return match.Captures, found
}

// readCasual reads today, tomorrow and yesterday, as so many days from now.
func readCasual(words []string, now time.Time) (days int, ok bool) {
	_, found := read(casualRule, words, now)
	if found == nil || found.Hour != nil || words[0] == "now" {
		return 0, false
	}
	return wholeDays(found.Duration), true
}

// readWeekday reads a weekday, as so many days from now. first means that no other day can be meant than the first to come, with nothing
// before it to say so: today may be it.
func readWeekday(words []string, now time.Time) (days int, first, ok bool, err error) {
	captures, found := read(weekdayRule, words, now)
	if found == nil {
		return 0, false, false, nil
	}
	days = wholeDays(found.Duration)
	which := captures[0]
	if which == "" {
		return days, true, true, nil
	}
	for _, other := range readings(which, days, now.Weekday()) {
		if other != days {
			days, other = min(days, other), max(days, other)
			return 0, false, true, fmt.Errorf("%q may mean %s or %s: write one of them", strings.Join(words, " "),
				dayOf(now, days).Format(time.DateOnly), dayOf(now, other).Format(time.DateOnly))
		}
	}
	return days, false, true, nil
}

// readings are what a weekday of last, this or next week would be in days from today, where weeks begin on Sunday and on Monday. The
// library takes it to be so many days away: the last or next one that there is, whatever the week, but this one by the week alone.
func readings(which string, days int, today time.Weekday) []int {
	week := map[string]int{"last": -1, "past": -1, "next": 1}[which]
	var out []int
	if which == "this" {
		out = append(out, (days+7)%7)
	}
	for _, first := range []time.Weekday{time.Sunday, time.Monday} {
		into := func(day int) int { return ((day-int(first))%7 + 7) % 7 }
		out = append(out, 7*week+into(int(today)+days)-into(int(today)))
	}
	return out
}

func wholeDays(length time.Duration) int { return int(length / (24 * time.Hour)) }

// readMonth reads a month, with a day (date > 0) or without one (0): may, 24 december, dec. 24th, first of may.
func readMonth(words []string) (month time.Month, date int, ok bool) {
	captures, found := read(monthDayRule, words, time.Time{})
	if found == nil || found.Month == nil {
		return 0, 0, false
	}
	days := 0
	for i, text := range captures {
		if text != "" && i != 2 { // A day before the month in letters or digits, the month, and a day after it.
			days++
		}
	}
	switch {
	case days == 0:
		return time.Month(*found.Month), 0, true
	case days == 1 && found.Day != nil && *found.Day > 0:
		return time.Month(*found.Month), *found.Day, true
	default:
		return 0, 0, false
	}
}

// readLength reads a length of time from now: in 6h, in 1d12h, in 3 hours, in two weeks, an hour ago. A day has 24 hours.
func readLength(words []string, now time.Time) (length time.Duration, ok bool, err error) {
	if len(words) == 2 && words[0] == "in" {
		length, err = policy.ParseDuration(words[1])
		return length, true, err
	}
	number := 1
	captures, found := read(aheadRule, words, now)
	if found == nil || captures[0] != "in" {
		number = 0
		if captures, found = read(agoRule, words, now); found == nil {
			return 0, false, nil
		}
	}
	text := strings.Join(words, " ")
	switch {
	case found.Month != nil || found.Year != nil:
		return 0, true, fmt.Errorf("%q may mean several lengths of time: use days or weeks, or a date", text)
	case strings.Contains(captures[number], "few"), strings.Contains(captures[number], "half"):
		return 0, true, fmt.Errorf("%q is not exact: use numbers, such as in 90m", text)
	}
	return checked(found.Duration, captures[number], text)
}

// checked refuses a length of time that is too long. The library multiplies without a look at what fits, so the product has to divide
// again by the number that was written, into one of its units.
func checked(length time.Duration, written, text string) (time.Duration, bool, error) {
	units := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}
	absolute := max(length, -length)
	if number, err := strconv.Atoi(written); err == nil && number > 0 {
		times := time.Duration(number)
		if absolute%times != 0 || !slices.Contains(units, absolute/times) {
			return 0, true, errTooLong(text)
		}
	}
	if absolute > policy.MaxDuration {
		return 0, true, errTooLong(text)
	}
	return length, true, nil
}

func errTooLong(text string) error {
	return fmt.Errorf("%q is too long: at most %s", text, policy.FormatDuration(policy.MaxDuration))
}
