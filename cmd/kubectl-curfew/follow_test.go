package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

func entry(name string, expiry time.Time) *world.Entry {
	return &world.Entry{
		Kind: world.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps"},
		Name: name, Trigger: policy.TriggerLabel, Source: policy.Source{Level: policy.LevelObject}, Expiry: expiry, UID: "uid-" + "x",
	}
}

// TestInPlace: what was shown before is overwritten, and never more lines than fit.
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
	for line := range strings.Lines(strings.TrimPrefix(many, "\x1b[2A\x1b[J")) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if none := show(noon); !strings.HasPrefix(none, "\x1b[3A\x1b[J") || !strings.Contains(none, "nothing, at 2026-12-24 13:00:00 CET") {
		t.Errorf("nothing: %q", none)
	}
}

// TestWatchTellsChanges: a line for what comes, changes and goes; the time that passes is no change, what a namespace says is.
func TestWatchTellsChanges(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull)
	cluster := newFakeCluster(t, objects(t))
	command := root(surroundings{now: func() time.Time { return noon }, connect: cluster.connect, terminal: func(any) bool { return false }})
	reader, writer := io.Pipe()
	command.SetArgs([]string{"expiring", "jobs", "-n", "ci", "--watch"})
	command.SetOut(writer)
	command.SetErr(io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, command)
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("no more lines: %v", lines.Err())
		}
		return strings.Join(strings.Fields(lines.Text()), " ")
	}
	expect := func(want ...string) {
		t.Helper()
		for _, line := range want {
			if have := next(); have != line {
				t.Errorf("have %q, want %q", have, line)
			}
		}
	}
	expect(
		"EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER",
		"NEW job.batch/active 2026-12-24 14:30:00 CET 1h30m deadline object -",
		"NEW job.batch/build 2026-12-25 12:00:00 CET 23h ttl namespace/ci -",
	)
	jobs := cluster.objects.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace("ci")
	build, err := jobs.Get(ctx, "build", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(build.Object, int64(3600), "spec", "ttlSecondsAfterFinished"); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Update(ctx, build, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("CHANGED job.batch/build 2026-12-24 13:00:00 CET now ttl namespace/ci -")
	if err := jobs.Delete(ctx, "build", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("GONE job.batch/build 2026-12-24 13:00:00 CET - ttl namespace/ci -")
	// Other than the API server's, the watches of the fake tell nothing of what was before them.
	if err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		return slices.ContainsFunc(cluster.metadata.Actions(), func(action clienttesting.Action) bool {
			return action.Matches("watch", "namespaces")
		}), nil
	}); err != nil {
		t.Fatal(err)
	}
	namespaces := cluster.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if _, err := namespaces.Patch(ctx, "ci", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"curfew.dev/mode":"dry-run"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("CHANGED job.batch/active 2026-12-24 14:30:00 CET 1h30m deadline object dry-run")
	cancel()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if code := <-ended; code != exitOK {
		t.Errorf("exit status %d", code)
	}
}
