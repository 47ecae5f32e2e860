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
		if err := screen.show(&expiringReport{now: now, entries: entries}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := show(noon, entry("a", noon.Add(time.Hour)))
	if strings.Contains(first, "\x1b") || strings.Count(first, "\n") != 2 {
		t.Errorf("the first time: %q", first)
	}
	second := show(noon.Add(time.Minute), entry("a", noon.Add(time.Hour)))
	if !strings.HasPrefix(second, "\x1b[2A\x1b[J") || !strings.Contains(second, "59m") {
		t.Errorf("a minute later: %q", second)
	}
	many := show(noon, entry("a", noon), entry("b", noon), entry("c", noon), entry("d", noon))
	if strings.Count(many, "\n") != 3 || !strings.Contains(many, "… and 3 more") {
		t.Errorf("more than fit: %q", many)
	}
	if fits := show(noon, entry("a", noon), entry("b", noon)); strings.Count(fits, "\n") != 3 || !strings.Contains(fits, "configmap/b") {
		t.Errorf("as many as fit: %q", fits)
	}
	if more := show(noon, entry("a", noon), entry("b", noon), entry("c", noon)); strings.Count(more, "\n") != 3 || !strings.Contains(more, "… and 2 more") {
		t.Errorf("one more than fits: %q", more)
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
	if none := show(noon); !strings.HasPrefix(none, "\x1b[3A\x1b[J") || !strings.Contains(none, "nothing, at 2026-12-24 13:00:00 CET") {
		t.Errorf("nothing: %q", none)
	}
}

// TestWithinMovesOn: --within means the same length of time in every round.
func TestWithinMovesOn(t *testing.T) {
	options := &expiringOptions{Connection: session.NewConnection(console.Environment{Now: func() time.Time { return noon }}, "table", "wide"), within: "1h"}
	query, err := options.query(t.Context(), nil, noon)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := errors.Join(lines.show(report), documents.show(report)); err != nil {
			t.Fatal(err)
		}
	}
	if rows := strings.Count(text.String(), "\n"); rows != 2 || strings.Contains(text.String(), eventChanged) || documentsPrinted != 1 {
		t.Errorf("%d documents and %d rows:\n%s", documentsPrinted, rows, text.String())
	}
}

var noon = time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("CET", 3600))
