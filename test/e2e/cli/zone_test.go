package cli

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// layout is how tables show instants, in the zone of the tests.
const layout = "2006-01-02 15:04:05"

// laying is how long the fixture's objects are created before the present, and earliest the most that
// [zone.normal] allows for.
const laying, earliest = 15 * time.Second, 90 * time.Second

// present is what the clocks of the zone show when the fixture is laid.
var present = time.Date(2026, 12, 24, 13, 0, 0, 0, time.UTC)

// latest is how long after that the commands may run. What the fixture has stands further away from
// the present.
const latest = 10 * time.Minute

// zone is a time zone whose clocks show the present at an instant, as a file that TZ can name. It
// calls itself CET, and its offset may be weeks.
type zone struct {
	file   string
	offset time.Duration
}

func newZone(dir string, t time.Time) (*zone, error) {
	out := &zone{file: filepath.Join(dir, "CET"), offset: present.Sub(t.UTC())}
	// RFC 9636: one type of local time, "CET", and no transitions.
	file := append([]byte("TZif"), make([]byte, 16)...)
	for _, count := range []uint32{0, 0, 0, 0, 1, 4} {
		file = binary.BigEndian.AppendUint32(file, count)
	}
	file = binary.BigEndian.AppendUint32(file, uint32(int32(out.offset/time.Second)))
	file = append(file, 0, 0)
	file = append(file, "CET\x00"...)
	return out, os.WriteFile(out.file, file, 0o600)
}

// instant is when the clocks of the zone show "2026-12-24 15:30".
func (z *zone) instant(t *testing.T, shown string) time.Time {
	t.Helper()
	instant, err := time.Parse("2006-01-02 15:04", shown)
	if err != nil {
		t.Fatal(err)
	}
	return instant.Add(-z.offset)
}

var (
	shownInstant = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d CET`)
	shownUTC     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:?\d\d:?\d\dZ`)
	shownLength  = regexp.MustCompile(`\b\d+[dhms](\d+[hms])?\b`)
	overdue      = regexp.MustCompile(`(2026-12-24 13:00:00 CET) +(overdue \S+|now)`)
	gaps         = regexp.MustCompile(` {3,}`)
	ago          = regexp.MustCompile(`(2026-12-24 13:00:00 CET), \S+ ago`)
	layoutsUTC   = []string{time.RFC3339, "2006-01-02T150405Z"}
)

// normal puts what depends on when exactly a command ran back to the present of the zone:
//
//   - an instant within the time that the tests run, such as that of a creation, is the present
//   - a length of time beside an instant that it leads to, or has passed since, is that from the present
//   - an instant in UTC is what it would be if the zone were Central European Time indeed
func (z *zone) normal(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(z.normalLine(line))
	}
	if text := out.String(); overdue.MatchString(text) {
		// How long that is changes the width of its column, too.
		return gaps.ReplaceAllString(overdue.ReplaceAllString(text, "$1   overdue 0s"), "   ")
	}
	return out.String()
}

// settled is the present for all instants at which the tests may have run.
func settled(t time.Time) time.Time {
	if !t.Before(present.Add(-earliest)) && t.Before(present.Add(latest)) {
		return present
	}
	return t
}

func (z *zone) normalLine(line string) string {
	var instants []time.Time
	line = shownInstant.ReplaceAllStringFunc(line, func(shown string) string {
		t, err := time.Parse(layout, strings.TrimSuffix(shown, " CET"))
		if err != nil {
			return shown
		}
		if t = settled(t); !t.Equal(present) {
			instants = append(instants, t)
		}
		return t.Format(layout) + " CET"
	})
	line = ago.ReplaceAllString(line, "$1, 0s ago")
	line = shownUTC.ReplaceAllStringFunc(line, func(shown string) string {
		for _, layout := range layoutsUTC {
			if t, err := time.Parse(layout, shown); err == nil {
				return settled(t.Add(z.offset)).Add(-time.Hour).Format(layout)
			}
		}
		return shown
	})
	return shownLength.ReplaceAllStringFunc(line, func(shown string) string {
		low, high := lengths(shown)
		for _, instant := range instants {
			// The time until an instant is a little more for an object that was created before the present,
			// and a little less later. The time since an instant is a little more.
			switch true := instant.Sub(present); {
			case true > 0 && low <= true+earliest && true-latest < high && len(twoUnits(true)) == len(shown):
				return twoUnits(true)
			case true < 0 && -true < high && low <= -true+latest && len(twoUnits(-true)) == len(shown):
				return twoUnits(-true)
			}
		}
		return shown
	})
}

// lengths that are shown so: from low to below high.
func lengths(shown string) (low, high time.Duration) {
	unit := map[byte]time.Duration{'d': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute, 's': time.Second}
	lower := map[byte]time.Duration{'d': time.Hour, 'h': time.Minute, 'm': time.Second, 's': time.Second}
	begin, parts := 0, 0
	var last byte
	for i := range len(shown) {
		if shown[i] < 'a' {
			continue
		}
		number, err := strconv.Atoi(shown[begin:i])
		if err != nil {
			return -1, -1
		}
		low += time.Duration(number) * unit[shown[i]]
		begin, last = i+1, shown[i]
		parts++
	}
	step := unit[last]
	if parts == 1 {
		step = lower[last] // 2h stands for 2h0m
	}
	return low, low + step
}

func twoUnits(length time.Duration) string {
	for _, unit := range []struct {
		name, lower string
		size, rest  time.Duration
	}{{"d", "h", 24 * time.Hour, time.Hour}, {"h", "m", time.Hour, time.Minute}, {"m", "s", time.Minute, time.Second}} {
		if length >= unit.size {
			out := strconv.Itoa(int(length/unit.size)) + unit.name
			if rest := length % unit.size / unit.rest; rest > 0 {
				out += strconv.Itoa(int(rest)) + unit.lower
			}
			return out
		}
	}
	return strconv.Itoa(int(length/time.Second)) + "s"
}

func TestNormal(t *testing.T) {
	z := &zone{offset: 33 * 24 * time.Hour}
	for text, want := range map[string]string{
		"a   2026-12-24 15:30:00 CET   2h29m   label   2h29m": "a   2026-12-24 15:30:00 CET   2h30m   label   2h30m",
		"a   2026-12-24 15:30:00 CET   2h20m   label":         "a   2026-12-24 15:30:00 CET   2h30m   label",
		"a   2026-12-24 15:30:00 CET   2h19m   label":         "a   2026-12-24 15:30:00 CET   2h19m   label", // too long ago: not hidden
		"a   2026-12-24 15:30:00 CET   2h31m   label":         "a   2026-12-24 15:30:00 CET   2h30m   label",
		"a   2026-12-24 15:30:00 CET   2h32m   label":         "a   2026-12-24 15:30:00 CET   2h32m   label", // created too early
		"b   2026-12-24 11:30:00 CET   overdue 1h33m   ttl":   "b   2026-12-24 11:30:00 CET   overdue 1h30m   ttl",
		"c   2026-12-26 17:30:00 CET   2d4h   label   1d":     "c   2026-12-26 17:30:00 CET   2d4h   label   1d",
		"Created   2026-12-24 13:00:07 CET, 12s ago":          "Created   2026-12-24 13:00:00 CET, 0s ago",
		"curfew.dev/ttl=2026-11-21T143000Z, since x":          "curfew.dev/ttl=2026-12-24T133000Z, since x",
		"paused at 2026-11-21T13:00:09Z":                      "paused at 2026-12-24T12:00:00Z",
	} {
		if have := z.normal(text); have != want {
			t.Errorf("%q becomes %q, want %q", text, have, want)
		}
	}
}
