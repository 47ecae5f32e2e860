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
	"curfew.dev/curfew/test/builders"
)

func entry(name string, expiry time.Time) *world.Entry {
	return &world.Entry{
		Kind: world.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps"},
		Name: name, Trigger: policy.TriggerLabel, Source: lifetime.Source{Level: lifetime.LevelObject}, Expiry: expiry, UID: "uid-" + "x",
	}
}

// TestKeepsWhatDoesNotAnswer: rows of a kind or group that does not answer stay. Rows of other
// kinds can be gone.
func TestKeepsWhatDoesNotAnswer(t *testing.T) {
	entryOf := func(group string) *world.Entry {
		out := entry(group, noon)
		out.Kind.Group, out.Kind.Resource = group, "things"
		return out
	}
	last := &expiringReport{entries: []*world.Entry{entryOf("silent"), entryOf("unlisted"), entryOf("gone")}}
	report := &expiringReport{silent: []string{"silent"}, unlisted: []schema.GroupResource{{Group: "unlisted", Resource: "things"}}}
	must(t, report.keep(last))
	var kept []string
	for _, each := range report.entries {
		kept = append(kept, each.Name)
	}
	if have := strings.Join(kept, " "); have != "silent unlisted" {
		t.Errorf("kept rows are %s, want silent unlisted", have)
	}
}

// TestWithinMovesOn: --within means the same length of time in every round.
func TestWithinMovesOn(t *testing.T) {
	options := &expiringOptions{Connection: session.NewConnection(console.Environment{Now: func() time.Time { return noon }}, "table", "wide"), within: "1h"}
	query, err := options.query(t.Context(), nil, noon)
	must(t, err)
	later := entry("later", noon.Add(90*time.Minute))
	for d, want := range map[time.Duration]bool{0: false, 30*time.Minute - 1: false, 30 * time.Minute: true, 2 * time.Hour: true} {
		if have := options.asOf(query, noon.Add(d)).matches(later); have != want {
			t.Errorf("after %s: %v, want %v", d, have, want)
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

var must = builders.Must

// TestNarrowTerminal: a name that is too long for a terminal leaves EXPIRES in view. Pipes and
// -o wide have names in full.
func TestNarrowTerminal(t *testing.T) {
	long := entry(strings.Repeat("a", 100)+"-end", noon)
	long.Namespace = "team"
	report := &expiringReport{now: noon, everywhere: true, entries: []*world.Entry{long}}
	for _, each := range []view{{}, {width: 80, wide: true}, {width: 80}, {width: 30}} {
		var out strings.Builder
		must(t, each.print(report, &out))
		row := strings.Split(out.String(), "\n")[1]
		if whole := each.width == 0 || each.wide; strings.Contains(row, long.Name) != whole || !whole && !strings.Contains(row, "-end   ") {
			t.Errorf("%+v: %s", each, row)
		}
		if i := len([]rune(row[:strings.Index(row, "CET")+3])); each == (view{width: 80}) && i != 80 {
			t.Errorf("EXPIRES ends in column %d of 80, want 80\n%s", i, row)
		}
	}
}
