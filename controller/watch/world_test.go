package watch

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

type object = metav1.PartialObjectMetadata

// api is an API server with objects of one kind.
type api struct {
	mu       sync.Mutex
	objects  map[string]*object
	version  int
	watchers []*watch.RaceFreeFakeWatcher
	requests []string // since they were last asked for

	// noList, noStream and noWatch are what these requests fail with.
	noList, noStream, noWatch error
	// endless has streams never come to the end of their list, and cut ends them before that.
	endless, cut bool
	// closed ends each watch at once.
	closed bool
	// listed is called, once, during a list.
	listed func()
}

func newAPI(names ...string) *api {
	a := &api{objects: map[string]*object{}, version: 10}
	for _, name := range names {
		a.put(name)
	}
	return a
}

func (a *api) locked(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *api) put(name string) { a.write(name, watch.Added, true) }

// write changes an object. Without shown, no watch reports that.
func (a *api) write(name string, change watch.EventType, shown bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	o := &object{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(a.version)}}
	if a.objects[name] = o; change == watch.Deleted {
		delete(a.objects, name)
	}
	for _, watcher := range a.watchers {
		if shown {
			watcher.Action(change, o)
		}
	}
}

// bookmark reports the newest resourceVersion.
func (a *api) bookmark(annotations map[string]string) watch.Event {
	meta := metav1.ObjectMeta{ResourceVersion: strconv.Itoa(a.version), Annotations: annotations}
	return watch.Event{Type: watch.Bookmark, Object: &object{ObjectMeta: meta}}
}

// end ends all watches, with an event or else with a bookmark that shows progress.
func (a *api) end(last ...watch.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(last) == 0 {
		a.version++
		last = append(last, a.bookmark(nil))
	}
	for _, watcher := range a.watchers {
		watcher.Action(last[0].Type, last[0].Object)
		watcher.Stop()
	}
	a.watchers = nil
}

// asked are the requests since it was last called.
func (a *api) asked() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := strings.Join(a.requests, ", ")
	a.requests = nil
	return out
}

func (a *api) list(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests = append(a.requests, "list"); a.listed != nil {
		a.listed()
		a.listed = nil
	}
	if options.ResourceVersion != "" {
		return nil, fmt.Errorf("a list from resourceVersion %q may be served from a cache that lags", options.ResourceVersion)
	}
	if a.noList != nil {
		return nil, a.noList
	}
	out := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
	for _, name := range slices.Sorted(maps.Keys(a.objects)) {
		out.Items = append(out.Items, *a.objects[name])
	}
	return out, nil
}

func (a *api) watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	stream, watcher := options.SendInitialEvents != nil, watch.NewRaceFreeFake()
	request := "watch " + options.ResourceVersion
	if stream {
		request = "stream"
	}
	a.requests = append(a.requests, request)
	switch {
	case stream && a.noStream != nil:
		return nil, a.noStream
	case !stream && a.noWatch != nil:
		return nil, a.noWatch
	case stream:
		for _, name := range slices.Sorted(maps.Keys(a.objects)) {
			watcher.Add(a.objects[name])
		}
		if !a.endless && !a.cut {
			last := a.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
			watcher.Action(last.Type, last.Object)
		}
	}
	if a.closed && !stream || a.cut && stream {
		watcher.Stop()
	} else {
		a.watchers = append(a.watchers, watcher)
	}
	return watcher, nil
}

// caller is who a follower keeps in step.
type caller struct {
	*Follower
	mu     sync.Mutex
	known  map[string]string // resourceVersions by name
	list   map[string]string // that the list under way has shown; nil without one
	marked string            // resourceVersion of the last bookmark
	ends   int
	// fails is what the next object, or the next list, fails with.
	fails, failsToBegin error
	changes             int
}

func (c *caller) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// state is what the caller has got so far.
func (c *caller) state() (known map[string]string, lists, changes int, marked string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.known), c.ends, c.changes, c.marked
}

// follow follows the objects of an API server until the test ends.
func follow(t *testing.T, a *api, change func(*Options)) *caller {
	t.Helper()
	c := &caller{known: map[string]string{}}
	options := Options{
		List: a.list, Watch: a.watch, Clock: clock.RealClock{}, Log: logr.Discard(), Changed: func() { c.locked(func() { c.changes++ }) },
		Begin: func(context.Context) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			err := c.failsToBegin
			c.list, c.failsToBegin = map[string]string{}, nil
			return err
		},
		Observe: func(_ context.Context, o runtime.Object) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := c.fails; err != nil {
				c.fails = nil
				return err
			}
			meta := o.(*object)
			if c.known[meta.Name] = meta.ResourceVersion; c.list != nil {
				c.list[meta.Name] = meta.ResourceVersion
			}
			return nil
		},
		Deleted: func(o metav1.Object) {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.known, o.GetName())
		},
		Bookmark: func(version string) { c.locked(func() { c.marked = version }) },
		End: func(string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.known, c.list, c.ends = c.list, nil, c.ends+1
		},
	}
	if change != nil {
		change(&options)
	}
	c.Follower = New(options)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// expect compares what is known, and what was asked for since the last call.
func (c *caller) expect(t *testing.T, a *api, when, known, asked string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	names := strings.Join(slices.Sorted(maps.Keys(c.known)), " ")
	c.mu.Unlock()
	if requests := a.asked(); names != known || requests != asked {
		t.Errorf("%s: known is %q after %q; want %q after %q", when, names, requests, known, asked)
	}
}

// after lets time pass inside a bubble.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

var notFound = apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodGet, schema.GroupResource{}, "", "404 page not found", 0, true)
