package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

var jobsResource = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// TestWatchShowsChanges: --watch prints a line for each new, changed and gone row. A new mode of
// the namespace is a change, and the passing of time is none.
func TestWatchShowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, objects(t))
		watch := startWatch(t, cluster, "expiring", "jobs", "-n", "ci", "--watch")
		watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER", "NEW job.batch/active 2026-12-24 14:30:00 CET 1h30m deadline object -", "NEW job.batch/build 2026-12-25 12:00:00 CET 23h ttl namespace/ci -")
		cluster.changeContext(t, jobsResource, "ci", "build", field("spec/ttlSecondsAfterFinished", int64(3600)))
		watch.expect("CHANGED job.batch/build 2026-12-24 13:00:00 CET now ttl namespace/ci -")
		must(t, cluster.objects.Tracker().Delete(jobsResource, "ci", "build"))
		watch.expect("GONE job.batch/build 2026-12-24 13:00:00 CET - ttl namespace/ci -")
		namespaces := cluster.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
		for _, mode := range []string{"dry-run", "enforce"} {
			patch := []byte(`{"metadata":{"annotations":{"curfew.dev/mode":"` + mode + `"}}}`)
			if _, err := namespaces.Patch(t.Context(), "ci", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			watch.expect("CHANGED job.batch/active 2026-12-24 14:30:00 CET 1h30m deadline object " +
				map[string]string{"dry-run": "dry-run", "enforce": "-"}[mode])
		}
		watch.end()
	})
}

// TestWatchIsPolite: lists that take long are followed by long pauses.
func TestWatchIsPolite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, objects(t))
		lists := 0
		cluster.objects.PrependReactor("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			time.Sleep(3 * time.Second)
			return false, nil, nil
		})
		watch := startWatch(t, cluster, "expiring", "jobs", "-n", "ci", "--watch")
		watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER")
		go func() { _, _ = io.Copy(io.Discard, watch.reader) }()
		time.Sleep(55 * time.Second)
		synctest.Wait()
		watch.end()
		if lists != 2 {
			t.Errorf("%d lists of 3s in 55s, want 2: a tenth of the time", lists)
		}
	})
}

// TestWatchSaysWhatMayNotBeListed: kinds that are left out are named before the first line. If that
// is every kind, or one that the user named, there is no answer.
func TestWatchSaysWhatMayNotBeListed(t *testing.T) {
	const secrets = "note: you may not list secrets: their expiries are not known\n" +
		"note: cleanup policies that delete nothing as they are: 3 (--trigger cleanup names them)\n"
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, objects(t))
		cluster.notMine["list secrets"] = true
		watch := startWatch(t, cluster, "expiring", "-n", "ci", "--watch")
		watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER")
		expectSame(t, "stderr", watch.said.String(), secrets)
		watch.end()
	})
	for name, want := range map[string]string{
		"jobs": `error: listing jobs.batch: jobs is forbidden: you cannot list it`,
		"":     `error: you may not list anything in namespace "ci": give another with -n`,
	} {
		cluster := newFakeCluster(t, objects(t))
		cluster.mayListNothing()
		expectRun(t, cluster, scene{}, "expiring -n ci --watch "+name, console.ExitUsage, want)
	}
}

// TestWatchKeepsWhatCannotBeListed: no row is reported as gone while its kind, or the API server,
// does not answer. The rows of a kind that is not served any more are gone.
func TestWatchKeepsWhatCannotBeListed(t *testing.T) {
	const header, both = "EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER", "job.batch/both 2026-12-24 17:00:00 CET 4h ttl object -"
	unavailable := apierrors.NewServiceUnavailable("overloaded")
	notFound := apierrors.NewNotFound(schema.GroupResource{Group: "batch", Resource: "jobs"}, "")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "", errors.New("no more"))
	for name, c := range map[string]struct {
		err   error
		kinds []string
		gone  bool
		said  string
		ends  bool
	}{
		"the kind fails":          {err: unavailable, said: "note: jobs.batch cannot be listed, and their expiries are not known: listing jobs.batch: overloaded\n"},
		"the named kind fails":    {err: unavailable, kinds: []string{"jobs"}, said: "note: no answer since 2026-12-24 13:00:00 CET, rows may have changed: listing jobs.batch: overloaded\n"},
		"nothing answers":         {err: errors.New("connection refused"), said: "note: no answer since 2026-12-24 13:00:00 CET, rows may have changed: listing jobs.batch: connection refused\n"},
		"the kind is gone":        {err: notFound, gone: true},
		"the named kind is taken": {err: forbidden, kinds: []string{"jobs"}, ends: true, said: "error: listing jobs.batch: jobs.batch is forbidden: no more\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newFakeCluster(t, objects(t))
				var failing atomic.Bool
				cluster.objects.PrependReactor("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return failing.Load(), nil, c.err })
				args := append([]string{"expiring"}, c.kinds...)
				watch := startWatch(t, cluster, append(args, "-n", "default", "--trigger", "ttl", "--watch")...)
				watch.expect(header, "NEW "+both)
				failing.Store(true)
				if c.gone {
					watch.expect("GONE " + strings.Replace(both, "4h", "-", 1))
				}
				if c.ends {
					go func() { _, _ = io.Copy(io.Discard, watch.reader) }()
					if code := <-watch.ended; code != console.ExitUsage {
						t.Errorf("exit status %d", code)
					}
				} else {
					time.Sleep(10 * time.Second)
					failing.Store(false)
					must(t, cluster.objects.Tracker().Delete(jobsResource, "default", "both"))
					if !c.gone {
						watch.expect("GONE " + strings.Replace(both, "4h", "-", 1))
					}
					watch.end()
				}
				if watch.said.String() != c.said {
					t.Errorf("said %q, want %q", watch.said.String(), c.said)
				}
			})
		})
	}
}

// watching is a command that runs until its context ends.
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
	command := root(console.Environment{Now: func() time.Time { return noon }, Connect: cluster.connect, Terminal: func(any) bool { return false }})
	command.SetArgs(args)
	command.SetOut(writer)
	command.SetErr(&out.said)
	go func() {
		code := console.Run(ctx, command)
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

func (w *watching) end() {
	w.Helper()
	w.cancel()
	go func() { _, _ = io.Copy(io.Discard, w.reader) }()
	if code := <-w.ended; code != console.ExitOK {
		w.Errorf("exit status %d", code)
	}
}
