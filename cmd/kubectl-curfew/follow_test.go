package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
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

// TestWithinMovesOn: what lies within an hour is not what did when the watch began.
func TestWithinMovesOn(t *testing.T) {
	now := noon
	options := &expiringOptions{connection: newConnection(surroundings{now: func() time.Time { return now }}), output: "table", within: "1h"}
	query, err := options.query(t.Context(), nil, now)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[types.UID][]world.Entry{"x": {*entry("later", noon.Add(90*time.Minute))}}
	for at, want := range map[time.Duration]int{0: 0, 30*time.Minute - 1: 0, 30 * time.Minute: 1, 2 * time.Hour: 1} {
		now = noon.Add(at)
		if report := options.matching(query, entries); len(report.entries) != want || !report.now.Equal(now) {
			t.Errorf("after %s: %d, want %d", at, len(report.entries), want)
		}
	}
	options.within, options.before = "", "now"
	if query, err := options.query(t.Context(), nil, noon); err != nil || !query.span.Contains(noon) || query.span.Contains(noon.Add(1)) {
		t.Errorf("what is due now goes before now: %+v, %v", query.span, err)
	}
}

// TestWatchTellsChanges: a line for what comes, changes and goes; the time that passes is no change, what a namespace says is.
func TestWatchTellsChanges(t *testing.T) {
	cluster := newFakeCluster(t, objects(t))
	watch := startWatch(t, cluster, "expiring", "jobs", "-n", "ci", "--watch")
	watch.expect(
		"EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER",
		"NEW job.batch/active 2026-12-24 14:30:00 CET 1h30m deadline object -",
		"NEW job.batch/build 2026-12-25 12:00:00 CET 23h ttl namespace/ci -",
	)
	jobs := cluster.objects.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace("ci")
	build, err := jobs.Get(t.Context(), "build", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(build.Object, int64(3600), "spec", "ttlSecondsAfterFinished"); err != nil {
		t.Fatal(err)
	}
	watch.awaitWatches(&cluster.objects.Fake, "jobs", 1)
	if _, err := jobs.Update(t.Context(), build, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	watch.expect("CHANGED job.batch/build 2026-12-24 13:00:00 CET now ttl namespace/ci -")
	if err := jobs.Delete(t.Context(), "build", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	watch.expect("GONE job.batch/build 2026-12-24 13:00:00 CET - ttl namespace/ci -")
	// Each time all is asked anew, and what has not come yet is not gone.
	namespaces := cluster.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	for i := range 8 {
		mode, blocker := "enforce", "-"
		if i%2 == 0 {
			mode, blocker = "dry-run", "dry-run"
		}
		watch.awaitWatches(&cluster.metadata.Fake, "namespaces", i+1)
		patch := []byte(`{"metadata":{"annotations":{"curfew.dev/mode":"` + mode + `"}}}`)
		if _, err := namespaces.Patch(t.Context(), "ci", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		watch.expect("CHANGED job.batch/active 2026-12-24 14:30:00 CET 1h30m deadline object " + blocker)
	}
	watch.end()
}

// TestWatchSaysWhatMayNotBeListed: what is left out is said with the first lines; where it is all, or was named, there is no answer.
func TestWatchSaysWhatMayNotBeListed(t *testing.T) {
	const secrets = "note: you may not list secrets: what goes of these is not known\n"
	cluster := newFakeCluster(t, objects(t))
	cluster.notMine["list secrets"] = true
	watch := startWatch(t, cluster, "expiring", "-n", "ci", "--watch")
	watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER")
	if said := watch.said.String(); said != secrets {
		t.Errorf("said %q", said)
	}
	watch.end()
	for of, want := range map[string]string{
		"jobs": `kubectl curfew: listing jobs.batch: jobs is forbidden: you cannot list it`,
		"":     `kubectl curfew: you may not list anything in namespace "ci": give another with -n`,
	} {
		for range 8 { // Why the last kind is refused must not come too late, however that turns out.
			cluster := newFakeCluster(t, objects(t))
			for _, resources := range served {
				for _, one := range resources {
					if one.Namespaced {
						cluster.notMine["list "+one.Name] = true
					}
				}
			}
			watch := startWatch(t, cluster, append([]string{"expiring", "-n", "ci", "--watch"}, strings.Fields(of)...)...)
			if code := <-watch.ended; code != exitUsage || !strings.HasSuffix(watch.said.String(), want+"\n") {
				t.Fatalf("%q: exit status %d: %s", of, code, watch.said.String())
			}
		}
	}
}

// TestWatchLosesAKind: of a kind that may not be watched any longer nothing can be told, and that ends it. One that is not served any
// more has taken its objects along.
func TestWatchLosesAKind(t *testing.T) {
	const stuck = "NEW secret/stuck 2026-12-23 10:00:00 CET overdue 1d3h label object terminating"
	lose := func(t *testing.T, status metav1.Status, args ...string) *watching {
		t.Helper()
		cluster := newFakeCluster(t, objects(t))
		events := watch.NewFake()
		cluster.metadata.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, watch.Interface, error) { return true, events, nil })
		watch := startWatch(t, cluster, append([]string{"expiring", "-n", "foo", "--within", "1m", "--watch"}, args...)...)
		watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER")
		watch.expect(stuck)
		if len(args) == 0 {
			watch.expect("NEW job.batch/protected 2026-12-24 12:00:00 CET overdue 1h ttl object protection")
		}
		events.Error(&status)
		return watch
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no more")).ErrStatus
	for _, args := range [][]string{nil, {"secrets"}} {
		if w := lose(t, forbidden, args...); <-w.ended != exitUsage || w.said.String() != "kubectl curfew: watching secrets: secrets is forbidden: no more\n" {
			t.Errorf("%v: %q", args, w.said.String())
		}
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "").ErrStatus
	named := lose(t, gone, "secrets")
	go func() { _, _ = io.Copy(io.Discard, named.reader) }()
	if <-named.ended != exitUsage {
		t.Errorf("the one that was named: %q", named.said.String())
	}
	w := lose(t, gone)
	w.expect("GONE secret/stuck 2026-12-23 10:00:00 CET - label object terminating")
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for _, name := range []string{"a", "b", "c"} {
		object := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "foo", Name: name, UID: types.UID(name), Labels: map[string]string{"curfew.dev/ttl": "2026-12-24"}}}
		w.awaitWatches(&w.cluster.metadata.Fake, "configmaps", 1)
		if err := w.cluster.metadata.Tracker().Create(configMaps, &object, "foo"); err != nil {
			t.Fatal(err)
		}
		w.expect("NEW configmap/" + name + " 2026-12-24 01:00:00 CET overdue 12h label object -")
	}
	w.end()
	if w.said.String() != "" {
		t.Errorf("said %q", w.said.String())
	}
}

// TestWatchEnds: what has gone while nobody watched is told with the next list.
func TestWatchEnds(t *testing.T) {
	cluster := newFakeCluster(t, objects(t))
	events, watches := watch.NewFake(), 0
	cluster.objects.PrependWatchReactor("jobs", func(clienttesting.Action) (bool, watch.Interface, error) {
		watches++
		return watches == 1, events, nil
	})
	watch := startWatch(t, cluster, "expiring", "jobs", "-n", "default", "--watch")
	watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER",
		"NEW job.batch/both-2 2026-12-24 16:00:00 CET 3h label object -", "NEW job.batch/both 2026-12-24 17:00:00 CET 4h ttl object -")
	if err := cluster.objects.Tracker().Delete(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "default", "both"); err != nil {
		t.Fatal(err)
	}
	events.Stop()
	watch.expect("GONE job.batch/both 2026-12-24 17:00:00 CET - ttl object -")
	watch.end()
}

// TestWatchOfWhatFinishes: a Pod that finishes, which is seen by the watch of those that have before it leaves that of those that run, is not gone.
func TestWatchOfWhatFinishes(t *testing.T) {
	pod := func(name, phase string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "lab", "uid": name,
				"creationTimestamp": "2026-12-24T11:00:00Z", "labels": map[string]any{"curfew.dev/ttl": "5h"}},
			"spec": map[string]any{"restartPolicy": "Never"}, "status": map[string]any{"phase": phase},
		}}
	}
	row := func(event, name string) string {
		return event + " pod/" + name + " 2026-12-24 17:00:00 CET 4h label object -"
	}
	cluster := newFakeCluster(t, append(objects(t), pod("once", "Running")))
	running, finished := watch.NewFake(), watch.NewFake()
	cluster.objects.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		of, _ := action.(clienttesting.WatchAction)
		if of.GetWatchRestrictions().Fields.Matches(fields.Set{"status.phase": "Running"}) {
			return true, running, nil
		}
		return true, finished, nil
	})
	watch := startWatch(t, cluster, "expiring", "pods", "-n", "lab", "--watch")
	watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER", row("NEW", "once"))
	finish := func(name, next string) {
		finished.Add(pod(name, "Succeeded"))
		finished.Modify(pod(name, "Succeeded")) // It has been told that it was added by now.
		running.Modify(pod(name, "Running"))
		running.Delete(pod(name, "Running"))
		running.Add(pod(next, "Running"))
	}
	finish("once", "after")
	watch.expect(row("NEW", "after"))
	finish("p", "q")
	watch.expect(row("NEW", "p"), row("NEW", "q"))
	finished.Delete(pod("once", "Succeeded"))
	watch.expect(strings.Replace(row("GONE", "once"), "4h", "-", 1))
	watch.end()
}

// TestWatchFallsBehind: rows that cannot be brought up to date are not shown as if they were.
func TestWatchFallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, objects(t))
		jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
		events, watches := watch.NewFake(), 0
		cluster.objects.PrependWatchReactor("jobs", func(clienttesting.Action) (bool, watch.Interface, error) {
			watches++
			return watches == 1, events, nil
		})
		away := 0
		cluster.objects.PrependReactor("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			away--
			return away == 0 || away == 1, nil, errors.New("connection refused")
		})
		watch := startWatch(t, cluster, "expiring", "jobs", "-n", "default", "--watch")
		watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER",
			"NEW job.batch/both-2 2026-12-24 16:00:00 CET 3h label object -", "NEW job.batch/both 2026-12-24 17:00:00 CET 4h ttl object -")
		if err := cluster.objects.Tracker().Delete(jobs, "default", "both"); err != nil {
			t.Fatal(err)
		}
		away = 2
		events.Stop()
		watch.expect("GONE job.batch/both 2026-12-24 17:00:00 CET - ttl object -")
		watch.end()
		const want = "note: jobs.batch cannot be watched, and may have changed: listing jobs.batch: connection refused\n"
		if watch.said.String() != want {
			t.Errorf("said %q", watch.said.String())
		}
	})
}

// TestWatchListsTooLong: what was deleted while a list took longer than the API server remembers has no row.
func TestWatchListsTooLong(t *testing.T) {
	cluster := newFakeCluster(t, objects(t))
	pages := 0
	cluster.objects.PrependReactor("list", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		_, all, err := clienttesting.ObjectReaction(cluster.objects.Tracker())(action)
		found, _ := all.(*unstructured.UnstructuredList)
		switch pages++; pages {
		case 1:
			found.SetContinue("more")
		case 2:
			if err := cluster.objects.Tracker().Delete(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "default", "both"); err != nil {
				t.Error(err)
			}
			return true, nil, apierrors.NewResourceExpired("too old")
		}
		return true, found, err
	})
	watch := startWatch(t, cluster, "expiring", "jobs", "-n", "default", "--watch")
	watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER", "NEW job.batch/both-2 2026-12-24 16:00:00 CET 3h label object -")
	watch.end()
	if pages != 3 {
		t.Errorf("%d pages", pages)
	}
}

// watching is a command that goes on until it is told to end.
type watching struct {
	*testing.T
	cancel  context.CancelFunc
	cluster *fakeCluster
	reader  *io.PipeReader
	lines   *bufio.Scanner
	ended   chan int
	said    strings.Builder // what went to stderr, before the lines that were read since
}

func startWatch(t *testing.T, cluster *fakeCluster, args ...string) *watching {
	t.Helper()
	t.Setenv("KUBECONFIG", os.DevNull)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	reader, writer := io.Pipe()
	out := &watching{T: t, cancel: cancel, cluster: cluster, reader: reader, lines: bufio.NewScanner(reader), ended: make(chan int, 1)}
	command := root(surroundings{now: func() time.Time { return noon }, connect: cluster.connect, terminal: func(any) bool { return false }})
	command.SetArgs(args)
	command.SetOut(writer)
	command.SetErr(&out.said)
	go func() {
		code := run(ctx, command)
		writer.Close()
		out.ended <- code
	}()
	return out
}

func (w *watching) expect(want ...string) {
	w.Helper()
	for _, line := range want {
		if !w.lines.Scan() {
			w.Fatalf("no more lines: %v", w.lines.Err())
		}
		if have := strings.Join(strings.Fields(w.lines.Text()), " "); have != line {
			w.Errorf("have %q, want %q", have, line)
		}
	}
}

// awaitWatches waits until a resource has been watched so many times. Other than the API server's, the watches of a fake tell nothing of
// what was before them, not even of what came after the list. What is noted as an action is registered by then: both are done under one
// lock.
func (w *watching) awaitWatches(fake *clienttesting.Fake, resource string, times int) {
	w.Helper()
	if err := wait.PollUntilContextTimeout(w.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		have := 0
		for _, action := range fake.Actions() {
			if action.Matches("watch", resource) {
				have++
			}
		}
		return have >= times, nil
	}); err != nil {
		w.Fatalf("waiting for watches of %s: %v", resource, err)
	}
}

func (w *watching) end() {
	w.Helper()
	w.cancel()
	go func() { _, _ = io.Copy(io.Discard, w.reader) }()
	if code := <-w.ended; code != exitOK {
		w.Errorf("exit status %d", code)
	}
}
