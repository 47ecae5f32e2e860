package lint

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/rules"
)

// TestManyFiles: lint keeps few of many files in memory, and judges each by the Namespace in the
// last one.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	const files, objects = 400, 8
	var text strings.Builder
	for i := range objects {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a%d\ndata:\n", i)
		for j := range 20 {
			fmt.Fprintf(&text, "  key-%d: %s\n", j, strings.Repeat("x", 50))
		}
		text.WriteString("---\n")
	}
	text.WriteString("apiVersion: batch/v1\nkind: Job\nmetadata: {name: b, namespace: ci}\nspec: {ttlSecondsAfterFinished: 864000}\n")
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.yaml", i)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ci, annotations: {curfew.dev/max-ttl: 7d}}\n"
	if err := os.WriteFile(filepath.Join(dir, "z.yaml"), []byte(namespace), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := folders.ListFiles([]string{dir}, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	from := folders.NewManifests(list)
	options := lintOptions{Connection: session.NewConnection(console.Environment{Now: func() time.Time { return time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("CET", 3600)) }}), warnBelow: "60s"}
	still := console.NewProgress(console.Environment{Terminal: func(any) bool { return false }}, io.Discard)
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	judge, err := options.asLinter(t.Context(), from, still)
	if err != nil {
		t.Fatal(err)
	}
	report, count := lint.NewReport(nil), 0
	if err := from.Each(t.Context(), still, func(document *lint.Document) error {
		result, err := judge(t.Context(), document)
		if err != nil {
			return err
		}
		report.Add(result)
		if count++; count == files*objects {
			if grown := int64(heap()) - int64(before); grown > 30<<20 {
				t.Errorf("%d MB are in use at the end", grown>>20)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if have := report.Count(rules.Deny); have != files {
		t.Errorf("%d objects are denied, want %d", have, files)
	}
	if want := files*(objects+1) + 1; report.Objects != want {
		t.Errorf("%d objects are judged, want %d", report.Objects, want)
	}
}
