package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

func TestIgnore(t *testing.T) {
	for name, test := range map[string]struct {
		patterns, ignored, kept []string
	}{
		"a name, at any depth":     {[]string{"values.yaml"}, []string{"values.yaml", "a/b/values.yaml"}, []string{"my-values.yaml", "values.yaml/x"}},
		"a directory":              {[]string{"charts/"}, []string{"charts/", "a/charts/"}, []string{"charts"}},
		"anchored":                 {[]string{"/a.yaml"}, []string{"a.yaml"}, []string{"b/a.yaml"}},
		"a path":                   {[]string{"a/*.yaml"}, []string{"a/b.yaml"}, []string{"a/b/c.yaml", "x/a/b.yaml"}},
		"any depth":                {[]string{"a/**/c.yaml"}, []string{"a/c.yaml", "a/b/c.yaml", "a/b/b/c.yaml"}, []string{"c.yaml", "b/c.yaml"}},
		"all below":                {[]string{"a/**"}, []string{"a/b", "a/b/c/"}, []string{"b/a"}},
		"the last that matches":    {[]string{"*.yaml", "!keep.yaml"}, []string{"a.yaml"}, []string{"keep.yaml", "a/keep.yaml"}},
		"kept, and left out again": {[]string{"!a.yaml", "a.yaml"}, []string{"a.yaml"}, nil},
		"letters of a set":         {[]string{"values-[ab].yaml", "?.json"}, []string{"values-a.yaml", "x.json"}, []string{"values-c.yaml", "xy.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			patterns, err := readIgnore(t.TempDir(), test.patterns)
			if err != nil {
				t.Fatal(err)
			}
			is := func(name string) bool {
				trimmed, dir := strings.CutSuffix(name, "/")
				return patterns.matches(trimmed, dir)
			}
			for _, name := range test.ignored {
				if !is(name) {
					t.Errorf("%s is kept", name)
				}
			}
			for _, name := range test.kept {
				if is(name) {
					t.Errorf("%s is left out", name)
				}
			}
		})
	}
	for _, bad := range []string{"", "!", "/", "[a", "a//b"} {
		if _, err := readIgnore(t.TempDir(), []string{bad}); err == nil {
			t.Errorf("%q is taken for a pattern", bad)
		}
	}
}

// TestManyFiles: however many files a directory has, few of them are in memory, and each is judged
// by the Namespace that stands in the last one.
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
	list, err := listFiles([]string{dir}, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	from := newManifests(list)
	from.keep = 64 << 10
	options := lintOptions{connection: newConnection(environment{now: func() time.Time { return noon }}), warnBelow: "60s"}
	still := newProgress(environment{terminal: func(any) bool { return false }}, io.Discard)
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
	if err := from.each(t.Context(), still, func(document *lint.Document) error {
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
	if report.Count(policy.Deny) != files || report.Objects != files*(objects+1)+1 {
		t.Errorf("%d findings on %d objects", len(report.Findings), report.Objects)
	}
}
