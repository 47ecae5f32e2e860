package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// observer watches the objects of a set and notes when each was first seen to be done: deleted, or
// what else a bench waits for. It is the same for every contestant and knows nothing of them. A
// watch that ends is opened again where it ended, so that no event is missed.
type observer struct {
	prefix string
	done   func(watch.Event, metav1.Object) bool
	cancel context.CancelFunc
	want   int
	full   chan struct{} // closed when want are seen
	ended  chan struct{} // closed when it has ended for good

	mu   sync.Mutex
	seen map[types.UID]sighting
	err  error
}

// sighting is the end of one object.
type sighting struct {
	name string
	at   time.Time
}

// watchFunc opens a watch of the objects in the benches' namespace. Whole objects in protobuf, as in
// the contestants' own watches: the API server then encodes each event once for all.
type watchFunc = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

// deleted reports whether an object is gone or has a deletionTimestamp.
func deleted(event watch.Event, object metav1.Object) bool {
	return event.Type == watch.Deleted || object.GetDeletionTimestamp() != nil
}

// observe begins to watch a set, from a resourceVersion on.
func observe(ctx context.Context, set jobSet, from string, open watchFunc, done func(watch.Event, metav1.Object) bool) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	watching, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{WatchFuncWithContext: open})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch for the observer: %w", err)
	}
	o := newObserver(set, done)
	o.cancel = cancel
	go o.read(watching.ResultChan())
	return o, nil
}

func newObserver(set jobSet, done func(watch.Event, metav1.Object) bool) *observer {
	return &observer{prefix: set.prefix + "-", done: done, want: set.count, full: make(chan struct{}), ended: make(chan struct{}), seen: map[types.UID]sighting{}}
}

// read notes events until there are no more.
func (o *observer) read(events <-chan watch.Event) {
	defer close(o.ended)
	for event := range events {
		if event.Type == watch.Error {
			o.mu.Lock()
			o.err = fmt.Errorf("the observer's watch: %v", event.Object)
			o.mu.Unlock()
			return
		}
		o.note(event, time.Now())
	}
}

func (o *observer) note(event watch.Event, t time.Time) {
	object, err := meta.Accessor(event.Object)
	if err != nil || !strings.HasPrefix(object.GetName(), o.prefix) || !o.done(event, object) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.seen[object.GetUID()]; again {
		return
	}
	o.seen[object.GetUID()] = sighting{object.GetName(), t}
	if len(o.seen) == o.want {
		close(o.full)
	}
}

// sightings returns what was seen so far, in order.
func (o *observer) sightings() []sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.SortedFunc(maps.Values(o.seen), func(a, b sighting) int { return a.at.Compare(b.at) })
}

// failure is why the watch ended before it was closed.
func (o *observer) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return errors.New("the observer's watch ended")
	}
	return o.err
}

func (o *observer) close() {
	o.cancel()
	<-o.ended
}
