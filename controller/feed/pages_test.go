package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/engine"
)

// runKind runs a feed of a kind, and its engine, until the test ends.
func runKind(t *testing.T, w *world, kind Kind) (*Feed, *engine.Engine) {
	t.Helper()
	engine, err := engine.New(engine.Options{Triggers: triggers(w), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := New(kind, Options{Engine: engine, Cached: &reads{namespaces: none()}, Live: &reads{namespaces: none(), live: true}, Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	go func() { _ = engine.Run(ctx); done <- struct{}{} }()
	go func() { _ = feed.Run(ctx); done <- struct{}{} }()
	t.Cleanup(func() {
		cancel()
		w.cut()
		<-done
		<-done
	})
	return feed, engine
}

// S3: each stream ends before its list is complete, while other clients write. After two such
// streams the list is read in pages, which does complete, and due objects are deleted.
func TestStreamsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 9 {
			w.put(finished("ci", fmt.Sprint("job-", i), fmt.Sprint("uid-", i), 60))
		}
		kind := w.kind()
		var streams atomic.Int32
		kind.Watch = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents == nil {
				return w.watch(ctx, options)
			}
			streams.Add(1)
			w.put(finished("ci", "written", "uid-written", -1))
			watcher := watch.NewRaceFreeFake()
			w.mu.Lock()
			watcher.Add(w.jobs["ci/written"].DeepCopy())
			w.mu.Unlock()
			watcher.Stop()
			return watcher, nil
		}
		feed, engine := runKind(t, w, kind)
		at(30 * time.Second)
		if !feed.Synced() || engine.Tracked() != 9 || streams.Load() != streamTries {
			t.Fatalf("after %d streams that were cut, %d Jobs of 9 are tracked", streams.Load(), engine.Tracked())
		}
		at(35 * time.Second)
		if left := w.count(); left != 1 {
			t.Errorf("%d Jobs are left, want the one without a TTL", left)
		}
		at(2 * pagedFor)
		if streams.Load() == streamTries {
			t.Error("lists are read in pages for ever")
		}
	})
}

// A page whose connection breaks is read again, a list whose snapshot is gone goes on where it is,
// and a page that is too large is read in parts: none begins the list again.
func TestPagesGoOn(t *testing.T) {
	const total = 400
	expired := apierrors.NewResourceExpired("too old")
	for name, test := range map[string]struct {
		err  error
		most int // lists of the kind
	}{
		"the connection breaks": {errors.New("unexpected EOF"), 1},
		"the snapshot is gone":  {expired, 1},
		"a page is too large":   {apierrors.NewRequestEntityTooLargeError("too many large objects"), 1},
		"an error":              {apierrors.NewInternalError(errors.New("etcd")), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.streams = false
				for i := range total {
					w.put(finished("ci", fmt.Sprintf("job-%03d", i), fmt.Sprint("uid-", i), 3600))
				}
				kind := w.kind()
				failed, limits := false, []int64(nil)
				kind.List = func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
					w.mu.Lock()
					w.page = int(options.Limit)
					w.mu.Unlock()
					if at, _ := strconv.Atoi(options.Continue); at > 0 && !failed {
						failed = true
						limits = append(limits, options.Limit)
						expired.ErrStatus.Continue = options.Continue
						return nil, test.err
					}
					if failed {
						limits = append(limits, options.Limit)
					}
					return w.list(ctx, namespace, options)
				}
				feed, engine := runKind(t, w, kind)
				at(10 * time.Second)
				if !feed.Synced() || engine.Tracked() != total || w.listings() != test.most {
					t.Errorf("%d Jobs of %d are tracked after %d lists, want %d", engine.Tracked(), total, w.listings(), test.most)
				}
				if smaller := limits[1] < limits[0]; smaller != (name == "a page is too large") && test.most == 1 {
					t.Errorf("limits %v", limits)
				}
			})
		})
	}
}
