package expiring

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
)

func entry(name string, expiry time.Time) *world.Entry {
	return &world.Entry{
		Kind: world.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps"},
		Name: name, Trigger: policy.TriggerLabel, Source: lifetime.Source{Level: lifetime.LevelObject}, Expiry: expiry, UID: "uid-" + "x",
	}
}

// TestInPlace: each screen overwrites the one before, and never has more lines than fit.
func TestInPlace(t *testing.T) {
	var out strings.Builder
	screen := &inPlace{out: &out, size: func() (int, int) { return 60, 5 }}
	show := func(now time.Time, entries ...*world.Entry) string {
		t.Helper()
		out.Reset()
		must(t, screen.show(&expiringReport{now: now, entries: entries}))
		return out.String()
	}
	a, b, c, d := entry("a", noon.Add(time.Hour)), entry("b", noon.Add(time.Hour)), entry("c", noon.Add(time.Hour)), entry("d", noon.Add(time.Hour))
	many := ""
	for _, test := range []struct {
		name    string
		after   time.Duration
		entries []*world.Entry
		lines   int
		start   string
		part    string
	}{
		{"the first time", 0, []*world.Entry{a}, 2, "NAME", "1h"},
		{"a minute later", time.Minute, []*world.Entry{a}, 2, "\x1b[2A\x1b[J", "59m"},
		{"more than fit", 0, []*world.Entry{a, b, c, d}, 3, "\x1b[2A\x1b[J", "… and 3 more"},
		{"as many as fit", 0, []*world.Entry{a, b}, 3, "\x1b[3A\x1b[J", "configmap/b"},
		{"one more than fits", 0, []*world.Entry{a, b, c}, 3, "\x1b[3A\x1b[J", "… and 2 more"},
		{"nothing", 0, nil, 1, "\x1b[3A\x1b[J", "nothing, at 2026-12-24 13:00:00 CET"},
	} {
		have := show(noon.Add(test.after), test.entries...)
		if strings.Count(have, "\n") != test.lines || !strings.HasPrefix(have, test.start) || !strings.Contains(have, test.part) {
			t.Errorf("%s: %q", test.name, have)
		}
		if len(test.entries) == 4 {
			many = have
		}
	}
	for line := range strings.Lines(strings.TrimPrefix(many, "\x1b[2A\x1b[J")) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	screen.lines = 0
	if err := screen.show(&expiringReport{now: noon, entries: []*world.Entry{entry("a", noon)}, notes: []string{"jobs.batch cannot be watched"}}); err != nil ||
		!strings.HasPrefix(out.String()[strings.LastIndex(out.String(), "note: "):], "note: jobs.batch cannot be watched\nNAME ") {
		t.Errorf("with a note: %q, %v", out.String(), err)
	}
}

// TestWithinMovesOn: --within means the same length of time in every round.
func TestWithinMovesOn(t *testing.T) {
	options := &expiringOptions{Connection: session.NewConnection(console.Environment{Now: func() time.Time { return noon }}, "table", "wide"), within: "1h"}
	query, err := options.query(t.Context(), nil, noon)
	must(t, err)
	later := entry("later", noon.Add(90*time.Minute))
	for at, want := range map[time.Duration]bool{0: false, 30*time.Minute - 1: false, 30 * time.Minute: true, 2 * time.Hour: true} {
		if have := options.asOf(query, noon.Add(at)).matches(later); have != want {
			t.Errorf("after %s: %v, want %v", at, have, want)
		}
	}
	options.within, options.before = "", "now"
	if query, err := options.query(t.Context(), nil, noon); err != nil || !query.span.Contains(noon) || query.span.Contains(noon.Add(1)) {
		t.Errorf("--before now has span %+v and error %v, want a span that ends with this second", query.span, err)
	}
}

// TestWatchWithTwoPolicies: an object that two cleanup policies match has a row for each, which do
// not replace each other.
func TestWatchWithTwoPolicies(t *testing.T) {
	run := func(name string) *world.Entry {
		source := lifetime.Source{Level: lifetime.Level(policy.TriggerCleanup), Name: name}
		return &world.Entry{UID: "a", Name: "a", Trigger: policy.TriggerCleanup, Source: source, Expiry: noon.Add(time.Hour)}
	}
	report := &expiringReport{now: noon, entries: []*world.Entry{run("one"), run("two")}}
	var text bytes.Buffer
	documentsPrinted := 0
	lines := newLines(view{noHeaders: true}, &text, io.Discard)
	documents := &asDocuments{out: io.Discard, noteLines: noteLines{out: io.Discard}, shown: map[string]Item{}, PrintFunc: func(console.Printed, io.Writer) error { documentsPrinted++; return nil }}
	for range 3 {
		must(t, errors.Join(lines.show(report), documents.show(report)))
	}
	if rows := strings.Count(text.String(), "\n"); rows != 2 || strings.Contains(text.String(), eventChanged) || documentsPrinted != 1 {
		t.Errorf("%d documents and %d rows:\n%s", documentsPrinted, rows, text.String())
	}
}

var noon = time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("CET", 3600))

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
