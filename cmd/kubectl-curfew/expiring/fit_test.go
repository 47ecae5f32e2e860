package expiring

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/judging"
)

// TestFit: on a terminal of any usual width no row wraps, the blocker is never cut, and a wide one
// shows everything.
func TestFit(t *testing.T) {
	long := entry("a-name-that-is-a-good-deal-longer-than-most-are", noon.Add(26*time.Hour))
	long.Namespace = "a-namespace-with-a-long-name"
	long.Obstacles = []judging.Obstacle{{Kind: judging.ObstacleTerminating, Message: "stuck", Stops: true}}
	short := entry("b", noon.Add(time.Hour))
	short.Namespace = "ci"
	report := &expiringReport{now: noon, everywhere: true, entries: []*world.Entry{long, short}}
	for width, want := range map[int]string{
		0:   "NAMESPACE NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER",
		200: "NAMESPACE NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER",
		120: "NAMESPACE NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER",
		80:  "NAMESPACE NAME EXPIRES LEFT BLOCKER",
		60:  "NAMESPACE NAME LEFT BLOCKER",
	} {
		var out bytes.Buffer
		must(t, (view{width: width}).print(report, &out))
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if have := strings.Join(strings.Fields(lines[0]), " "); have != want {
			t.Errorf("%d columns: %s, want %s", width, have, want)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); width > 0 && n > width {
				t.Errorf("%d columns: a row has %d: %s", width, n, line)
			}
		}
		if !strings.HasSuffix(lines[1], " terminating") || strings.Contains(out.String(), "...") != (width > 0 && width < 200) {
			t.Errorf("%d columns:\n%s", width, out.String())
		}
	}
}

func TestCut(t *testing.T) {
	for width, want := range map[int]string{20: "trainjob/tune-1", 15: "trainjob/tune-1", 14: "trai.../tune-1", 4: "t..."} {
		if have := console.Cut("trainjob/tune-1", width); have != want {
			t.Errorf("%d: %q, want %q", width, have, want)
		}
	}
}

// TestRowsOf: a screen is overwritten whole where lines wrap.
func TestRowsOf(t *testing.T) {
	var out strings.Builder
	screen := &inPlace{out: &out, view: view{wide: true}, size: func() (int, int) { return 40, 30 }}
	blocked := entry("a", noon.Add(time.Hour))
	blocked.Obstacles = []judging.Obstacle{{Kind: judging.ObstaclePermission, Message: strings.Repeat("may not ", 20), Stops: true}}
	for range 2 {
		must(t, screen.show(&expiringReport{now: noon, entries: []*world.Entry{blocked}}))
	}
	first, second, ok := strings.Cut(out.String(), "\x1b[")
	rows := 0
	for line := range strings.Lines(first) {
		rows += rowsOf(strings.TrimSuffix(line, "\n"), 40)
	}
	if !ok || rows < 8 || !strings.HasPrefix(second, strconv.Itoa(rows)+"A\x1b[J") || !strings.Contains(first, strings.Repeat("may not ", 20)) {
		t.Errorf("%d rows: %q", rows, out.String())
	}
}

// TestKeepsWhatDoesNotAnswer: rows of a kind or group that does not answer stay. Rows of other
// kinds can be gone.
func TestKeepsWhatDoesNotAnswer(t *testing.T) {
	of := func(group string) *world.Entry {
		out := entry(group, noon)
		out.Kind.Group, out.Kind.Resource = group, "things"
		return out
	}
	last := &expiringReport{entries: []*world.Entry{of("silent"), of("unlisted"), of("gone")}}
	report := &expiringReport{silent: []string{"silent"}, unlisted: []schema.GroupResource{{Group: "unlisted", Resource: "things"}}}
	must(t, report.keep(last))
	var kept []string
	for _, one := range report.entries {
		kept = append(kept, one.Name)
	}
	if have := strings.Join(kept, " "); have != "silent unlisted" {
		t.Errorf("kept rows are %s, want silent unlisted", have)
	}
}
