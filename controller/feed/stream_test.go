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
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/expire"
)

// A watch that may not be taken up any more is told to who looks after permissions. Its place is
// kept: an API server that has just started may not know the permission yet.
func TestWatchThatIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var i atomic.Int32
		start(t, w, none(), func(o *Options) { o.Forbidden = func() { i.Add(1) } })
		at(time.Minute)
		w.deafen(apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New("no")))
		w.locked(func() { w.watches = nil })
		w.cut()
		at(time.Minute)
		if i.Load() == 0 {
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
		engine, err := expire.New(expire.Options{Triggers: triggers(w)})
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

// chronicle is an Observer that writes down what a feed shows it.
type chronicle struct {
	feed *Feed
	log  []string
}

func (c *chronicle) Begin()           { c.log = append(c.log, "begin") }
func (c *chronicle) End()             { c.log = append(c.log, "end") }
func (c *chronicle) Forget(types.UID) { c.log = append(c.log, "forget") }
func (c *chronicle) See(object runtime.Object) {
	from := "watched "
	if c.feed.relist != nil {
		from = "listed "
	}
	c.log = append(c.log, from+object.(*batchv1.Job).Name)
}

// What depends on the objects of a kind sees where a list begins and ends. Only what a list shows
// counts as listed. A list that breaks does not end.
func TestListsAreEnclosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.streams = false
		for _, name := range []string{"a", "b", "c"} {
			w.put(finished("ci", name, "uid-"+name, 3600))
		}
		engine, err := expire.New(expire.Options{Triggers: triggers(w)})
		must(t, err)
		kind, seen, broken := w.kind(), &chronicle{}, false
		kind.Observer = seen
		kind.List = func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			if options.Continue != "" && !broken {
				broken = true
				return nil, apierrors.NewInternalError(errors.New("broken"))
			}
			return w.list(ctx, namespace, options)
		}
		seen.feed, err = New(kind, Options{Engine: engine, Cached: &reads{namespaces: none()}, Live: &reads{namespaces: none(), live: true}, Log: logr.Discard()})
		must(t, err)
		running(t, seen.feed.Run, w.cut)
		at(time.Second)
		w.put(finished("ci", "b", "uid-b", 7200))
		w.remove("ci/c")
		at(time.Second)
		want := []string{"begin", "listed a", "listed b", "begin", "listed a", "listed b", "listed c", "end", "watched b", "forget"}
		if log := slices.Compact(seen.log); !slices.Equal(log, want) { // A try to stream begins, too.
			t.Errorf("%q, want %q", log, want)
		}
	})
}
