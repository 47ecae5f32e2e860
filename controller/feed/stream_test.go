package feed

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/controller/engine"
)

// S3: the watch cannot go on where it ended; what happened meanwhile is found by listing again.
func TestWatchTooOldListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(finished("ci", "gone", "uid-gone", 60))
		_, engine := start(t, w, none(), nil)
		at(time.Second)
		w.locked(func() { w.stale = true })
		w.lose("ci/gone")
		w.cut()
		missed := finished("ci", "missed", "uid-missed", 5)
		w.put(missed)
		at(4 * time.Second)
		if n := engine.Tracked(); n != 1 {
			t.Errorf("%d objects are tracked after the relist, want only the one that exists", n)
		}
		at(3 * time.Second)
		expect(t, w, "missed", false)
	})
}

// S3: from where the feed is, nothing can be watched any more, for whatever reason: the periodic
// relist does not wait for that.
func TestRelistDoesNotWaitForAWatch(t *testing.T) {
	for name, err := range map[string]error{
		"errors":    apierrors.NewInternalError(errors.New("the watch cache is broken")),
		"no answer": errors.New("connection reset by peer"),
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld()
			start(t, w, none(), func(o *Options) { o.RelistEvery = 5 * time.Minute })
			at(time.Second)
			w.deafen(err)
			w.cut()
			w.put(finished("ci", "missed", "uid-missed", 5))
			at(6 * time.Minute)
			expect(t, w, "missed", false)
		})
	}
}

// A list that is too old to be watched from by the time it has come does not have the kind listed
// again and again.
func TestListThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.streams = false
		start(t, w, none(), nil)
		at(time.Minute)
		w.deafen(apierrors.NewResourceExpired("too old"))
		w.mu.Lock()
		before := len(w.lists)
		w.mu.Unlock()
		w.cut()
		w.put(finished("ci", "missed", "uid-missed", 5))
		at(2 * time.Minute)
		expect(t, w, "missed", false)
		w.mu.Lock()
		lists := len(w.lists) - before
		w.mu.Unlock()
		w.deafen(nil)
		if lists < 5 || lists > 25 {
			t.Errorf("listed %d times in two minutes, want no more than each ten seconds in the end", lists)
		}
		at(15 * time.Second)
		w.put(finished("ci", "new", "uid-new", 5))
		at(6 * time.Second)
		expect(t, w, "new", false)
	})
}

// A watch that may not be taken up any more is told to who looks after permissions. Its place is
// kept: an API server that has just started may not know the permission yet.
func TestWatchThatIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var told atomic.Int32
		start(t, w, none(), func(o *Options) { o.Forbidden = func() { told.Add(1) } })
		at(time.Minute)
		w.deafen(apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New("no")))
		w.locked(func() { w.watches = nil })
		w.cut()
		at(time.Minute)
		if told.Load() == 0 {
			t.Error("the feed reported no change, want one")
		}
		w.deafen(nil)
		at(15 * time.Second)
		w.put(finished("ci", "new", "uid-new", 5))
		at(6 * time.Second)
		expect(t, w, "new", false)
		w.mu.Lock()
		defer w.mu.Unlock()
		if slices.Contains(w.watches, "") {
			t.Errorf("watched from %q, want it taken up where it was", w.watches)
		}
	})
}

// All goroutines of a feed have ended when Run returns, so that they do not contradict a successor
// that judges by another profile.
func TestRunEndsWithAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(finished("ci", "a", "uid-a", 3600))
		engine, err := engine.New(engine.Options{Triggers: triggers(w)})
		must(t, err)
		kind := w.kind()
		slow := make(chan struct{})
		kind.List = func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			<-slow // the answer is on its way
			return w.list(ctx, namespace, options)
		}
		feed, err := New(kind, Options{Engine: engine, Cached: &reads{namespaces: none()}, Live: &reads{namespaces: none(), live: true}, Log: logr.Discard()})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var ended atomic.Bool
		go func() { _ = feed.Run(ctx); ended.Store(true) }()
		synctest.Wait()
		feed.RejudgeNamespace("ci")
		synctest.Wait()
		cancel()
		synctest.Wait()
		if ended.Load() {
			t.Error("it has ended while a namespace was still being judged again")
		}
		close(slow)
		synctest.Wait()
		if !ended.Load() {
			t.Error("it does not end")
		}
	})
}

// S3: a list that breaks in the middle, because its token expired or its connection broke, forgets
// no known object and starts again.
func TestListThatBreaksInTheMiddle(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old")
	for name, streams := range map[string]bool{"streamed list": true, "paged list": false} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld()
			w.streams = streams
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				w.put(finished("ci", name, "uid-"+name, 95))
			}
			kind := w.kind()
			var again atomic.Bool // it is time to list again
			var broken atomic.Int32
			kind.Watch = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				if options.SendInitialEvents == nil || !streams || !again.Load() || broken.Load() == 3 {
					return w.watch(ctx, options)
				}
				broken.Add(1)
				watcher := watch.NewRaceFreeFake()
				w.locked(func() { watcher.Add(w.objects["ci/a"].DeepCopy()) })
				if broken.Load() == 2 {
					watcher.Stop()
				} else {
					watcher.Error(&gone.ErrStatus)
				}
				return watcher, nil
			}
			kind.List = func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
				if options.Continue != "" && again.Load() && broken.Load() < 3 {
					broken.Add(1)
					return nil, gone
				}
				return w.list(ctx, namespace, options)
			}
			_, engine := startKind(t, w, none(), func() Kind { return kind }, func(o *Options) { o.RelistEvery = time.Minute })
			at(30 * time.Second)
			again.Store(true)
			at(31 * time.Second)
			if tracked := engine.Tracked(); broken.Load() == 0 || tracked != 5 {
				t.Errorf("%d are tracked after a list that broke %d times, want all five", tracked, broken.Load())
			}
			at(30 * time.Second)
			w.put(finished("ci", "f", "uid-f", 2))
			at(5 * time.Second)
			if left := w.count(); left != 0 || broken.Load() != 3 {
				t.Errorf("%d are left, and the list broke %d times", left, broken.Load())
			}
		})
	}
}

// S3: a stream whose list never ends, be it silent or busy, is given up for a list in pages. What
// was lost meanwhile is noticed, and once the API server ends its streams again they are used
// again.
func TestStreamThatNeverEnds(t *testing.T) {
	for name, busy := range map[string]bool{"silent": false, "busy": true} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld()
			w.endless = true
			w.put(finished("ci", "a", "uid-a", 60*60))
			feed, engine := start(t, w, none(), nil)
			began := time.Now()
			if busy {
				ctx, cancel := context.WithCancel(t.Context())
				t.Cleanup(cancel)
				go func() {
					for ctx.Err() == nil {
						w.put(finished("ci", "busy", "uid-busy", -1))
						select {
						case <-ctx.Done():
						case <-time.After(10 * time.Second):
						}
					}
				}()
			}
			for !feed.Synced() && time.Since(began) < time.Hour {
				at(time.Second)
			}
			most := 2*stallAfter + 2*time.Second
			if busy {
				most = maxStream + 2*time.Second
			}
			if took := time.Since(began); took > most {
				t.Fatalf("all was known after %s, want that within %s", took, most)
			}
			w.lose("ci/a")
			w.put(finished("ci", "b", "uid-b", 5))
			at(7 * time.Second)
			expect(t, w, "b", false)
			lists := w.listings()
			at(DefaultRelistEvery + time.Minute)
			if n := engine.Tracked(); n != 0 {
				t.Errorf("%d objects are tracked after the next list, want none: what was lost is still there", n)
			}
			if w.listings() == lists {
				t.Error("the next list was a stream again, which takes as long")
			}
			w.locked(func() { w.endless = false })
			at(pagedFor + DefaultRelistEvery)
			lists = w.listings()
			at(2 * DefaultRelistEvery)
			if w.listings() != lists {
				t.Error("lists are read in pages for ever")
			}
		})
	}
}
