package schedule_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"curfew.dev/curfew/policy/schedule"
)

func TestUnreadableSchedules(t *testing.T) {
	for name, test := range map[string]struct{ cron, zone, want string }{
		"empty":             {"", "", `schedule "" has 0 fields, not 5: minute, hour, day of month, month, day of week`},
		"seconds":           {"0 0 0 * * *", "", `schedule "0 0 0 * * *" has 6 fields, not 5: minute, hour, day of month, month, day of week`},
		"too large":         {"0 24 * * *", "", `schedule "0 24 * * *": hour: end of range (24) above maximum (23): 24`},
		"backwards":         {"0 5-3 * * *", "", `schedule "0 5-3 * * *": hour: beginning of range (5) beyond end of range (3): 5-3`},
		"a step of 0":       {"*/0 * * * *", "", `schedule "*/0 * * * *": minute: step of range should be a positive number: */0`},
		"Sunday as 7":       {"0 0 * * 7", "", `schedule "0 0 * * 7": day of week: end of range (7) above maximum (6): 7`},
		"no value":          {"0 , * * *", "", `schedule "0 , * * *": hour: "," names no value`},
		"an interval":       {"@every 10m", "", unknownForm("@every 10m")},
		"at start":          {"@reboot", "", unknownForm("@reboot")},
		"a zone":            {"TZ=Europe/Berlin 0 0 * * *", "", `schedule "TZ=Europe/Berlin 0 0 * * *" names a time zone; set spec.timeZone instead`},
		"a zone in a field": {"0 0 TZ=x * *", "", `schedule "0 0 TZ=x * *" names a time zone; set spec.timeZone instead`},
		"too long":          {strings.Repeat("0,", 128) + "0 * * * *", "", "schedule has 265 characters; at most 256 are allowed"},
		"local":             {"@daily", "Local", `time zone "Local" depends on the machine; write an IANA name such as Europe/Berlin`},
		"leap seconds":      {"@daily", "right/Europe/Berlin", `time zone "right/Europe/Berlin" depends on the machine; write an IANA name such as Europe/Berlin`},
		"a path":            {"@daily", "../x", `time zone "../x" is not an IANA name such as Europe/Berlin`},
		"a folder":          {"@daily", "Europe", `time zone "Europe" is not known; write an IANA name such as Europe/Berlin`},
		"unknown":           {"@daily", "Europe/Atlantis", `time zone "Europe/Atlantis" is not known; write an IANA name such as Europe/Berlin`},
		"an offset":         {"@daily", "+02:00", `time zone "+02:00" is not an IANA name such as Europe/Berlin`},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := schedule.Parse(test.cron, test.zone); err == nil || err.Error() != test.want {
				t.Errorf("%v, %v; want %s", s, err, test.want)
			}
		})
	}
}

func unknownForm(cron string) string {
	return `schedule "` + cron + `" is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; ` + `write five cron fields instead`
}

// field draws what people write into a cron field.
func field(t *rapid.T, name string, low, high int) string {
	item := rapid.Custom(func(t *rapid.T) string {
		value := rapid.IntRange(low, high)
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			return rapid.SampledFrom([]string{"*", "*/2", "*/5"}).Draw(t, "star")
		case 1:
			from := value.Draw(t, "from")
			return number(from) + "-" + number(rapid.IntRange(from, high).Draw(t, "to"))
		default:
			return number(value.Draw(t, "value"))
		}
	})
	return strings.Join(rapid.SliceOfN(item, 1, 3).Draw(t, name), ",")
}

func draw(t *rapid.T) string {
	return strings.Join([]string{field(t, "minute", 0, 59), field(t, "hour", 0, 23), field(t, "day", 1, 31), field(t, "month", 1, 12), field(t, "weekday", 0, 6)}, " ")
}

// match is an independent reading of the same five fields.
func match(cron string, s shown) bool {
	fields := strings.Fields(cron)
	contains := func(i, value, low int) bool {
		for item := range strings.SplitSeq(fields[i], ",") {
			span, step, stepped := strings.Cut(item, "/")
			from, to, ranged := strings.Cut(span, "-")
			switch {
			case span == "*" && !stepped:
				return true
			case span == "*" && (value-low)%atoi(step) == 0:
				return true
			case ranged && atoi(from) <= value && value <= atoi(to):
				return true
			case span != "*" && !ranged && atoi(span) == value:
				return true
			}
		}
		return false
	}
	starred := func(i int) bool { return slices.Contains(strings.Split(fields[i], ","), "*") }
	day, weekday := contains(2, s.day, 1), contains(4, int(s.weekday), 0)
	if starred(2) || starred(4) {
		day = day && weekday
	} else {
		day = day || weekday
	}
	return day && contains(0, s.minute, 0) && contains(1, s.hour, 0) && contains(3, int(s.month), 1)
}

// Any schedule, around any change of the clock in this century, agrees with the model.
func TestRandomSchedulesAroundChanges(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago",
		"Pacific/Apia", "Africa/Casablanca", "Asia/Pyongyang", "America/Caracas", "Antarctica/Troll", "Asia/Kathmandu"}
	rapid.Check(t, func(t *rapid.T) {
		cron, zone := draw(t), rapid.SampledFrom(zones).Draw(t, "zone")
		s, err := schedule.Parse(cron, zone)
		if err != nil {
			t.Fatal(err)
		}
		year := rapid.IntRange(1995, 2060).Draw(t, "year")
		when := time.Date(year, 1, 1, 0, 0, 0, 0, s.Location())
		for range rapid.IntRange(0, 3).Draw(t, "change") {
			if _, end := when.ZoneBounds(); !end.IsZero() {
				when = end
			}
		}
		from, to := when.Add(-15*time.Hour).Truncate(time.Minute), when.Add(30*time.Hour).Truncate(time.Minute)
		everyHour := true
		for hour := range 24 {
			everyHour = everyHour && match("* "+strings.Fields(cron)[1]+" * * *", shown{hour: hour})
		}
		want := walk(s.Location(), from, to, []sample{{everyHour: everyHour, match: func(s shown) bool { return match(cron, s) }}})[0]
		for i, after := range append([]time.Time{from}, want...) {
			got := s.Next(after)
			if i < len(want) && !got.Equal(want[i]) {
				t.Fatalf("%s %s: after %s comes %s; want %s", cron, zone, after.In(s.Location()), got, want[i].In(s.Location()))
			}
			if i == len(want) && !got.IsZero() && !got.After(to) {
				t.Fatalf("%s %s: after %s comes %s; want none until %s", cron, zone, after.In(s.Location()), got, to)
			}
		}
		latest, missed := s.Latest(from, to)
		if n := len(want); n == 0 && !latest.IsZero() || n > 0 && (!latest.Equal(want[n-1]) || missed != min(n-1, schedule.MaxMissed)) {
			t.Fatalf("%s %s: the latest until %s is %s with %d missed; want %v", cron, zone, to, latest, missed, want)
		}
	})
}

// MinInterval is the shortest of all intervals where the clock never changes.
func TestMinIntervalIsTheShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cron := draw(t)
		s, err := schedule.Parse(cron, "")
		if err != nil {
			t.Fatal(err)
		}
		when := s.Next(time.Date(rapid.IntRange(2000, 2030).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC))
		if when.IsZero() != s.Never() {
			t.Fatalf("%s: the next run is %s, and never is %v", cron, when, s.Never())
		}
		shortest := s.MinInterval()
		for range 500 {
			next := s.Next(when)
			if next.IsZero() {
				return
			}
			if next.Sub(when) < shortest {
				t.Fatalf("%s: from %s to %s is less than %s", cron, when, next, shortest)
			}
			when = next
		}
	})
}

// Whatever is written, it is refused or ends in bounded time, and runs go forward.
func FuzzParse(f *testing.F) {
	for _, sample := range samples {
		f.Add(sample.cron, "Europe/Berlin", int64(1774745999))
	}
	for _, text := range []string{"", "TZ=", "CRON_TZ=UTC", "TZ= 0 0 * * *", "@every 1ns", "@", ", , , , ,", "*/99999999999999999999 * * * *",
		"0-59/9223372036854775807 * * * *", "- / * * *", "1-2-3 * * * *", "1/2/3 * * * *", "? ? ? ? ?", "0 0 29 2 *", "0 0 31 2 *"} {
		f.Add(text, "Australia/Lord_Howe", int64(-62135596800))
		f.Add(text, "../x", int64(253402300799))
	}
	f.Fuzz(func(t *testing.T, cron, zone string, seconds int64) {
		s, err := schedule.Parse(cron, zone)
		if err != nil {
			if len(err.Error()) > 4096 {
				t.Errorf("an error of %d characters", len(err.Error()))
			}
			return
		}
		after := time.Unix(seconds, 0)
		if year := after.Year(); year < 1 || year > 9999 {
			return
		}
		runs := s.Upcoming(after, 20)
		for _, run := range runs {
			if !run.After(after) {
				t.Fatalf("%q in %q: %s comes after %s", cron, zone, run, after)
			}
			after = run
		}
		if len(runs) == 0 {
			return
		}
		last := runs[len(runs)-1]
		if when, missed := s.Latest(time.Unix(seconds, 0), last); !when.Equal(last) || missed != len(runs)-1 {
			t.Fatalf("%q in %q: the latest until %s is %s with %d missed", cron, zone, last, when, missed)
		}
		if s.Never() || s.MinInterval() < time.Minute {
			t.Fatalf("%q in %q: runs at %s, but never is %v and the interval %s", cron, zone, last, s.Never(), s.MinInterval())
		}
	})
}

func number(n int) string { return strconv.Itoa(n) }

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
