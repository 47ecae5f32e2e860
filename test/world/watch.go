package world

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// bookmarkEvery is how often a watch shows how far its cache is.
const bookmarkEvery = time.Minute

// watcher is the body of a watch that is open.
type watcher struct {
	world  *World
	store  *store
	of     *Request
	wanted selection
	ctx    context.Context
	client *Client

	at int64 // the watch has shown everything up to here
	// initial: the watch begins with all objects, once the cache is at least at this revision, and a
	// bookmark ends them. begun: it has.
	initial   int64
	streams   bool
	begun     bool
	bookmarks bool
	bookmark  time.Time
	until     time.Time
	rest      []byte
	epoch     int // of the store when the watch began
	closed    chan struct{}
	once      sync.Once
	ended     bool
}

// watch answers a watch.
func (w *World) watch(ctx context.Context, c *Client, r *Request) *http.Response {
	s := w.stores[r.Resource.GroupResource()]
	wanted, err := r.selection()
	if err != nil {
		return w.refuse(err)
	}
	body := &watcher{world: w, store: s, of: r, wanted: wanted, ctx: ctx, client: c, epoch: s.epoch, closed: make(chan struct{}), begun: true,
		bookmarks: r.query.Get("allowWatchBookmarks") == "true", bookmark: time.Now().Add(bookmarkEvery)}
	if seconds, _ := strconv.Atoi(r.query.Get("timeoutSeconds")); seconds > 0 {
		body.until = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	if err := body.begin(w); err != nil {
		return w.refuse(err)
	}
	return w.response(http.StatusOK, "application/json", body, -1)
}

// begin decides where the watch begins.
func (b *watcher) begin(w *World) error {
	query := b.of.query
	version := query.Get("resourceVersion")
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil && version != "" {
		return apierrors.NewBadRequest("resourceVersion: Invalid value: " + version)
	}
	b.streams = query.Get("sendInitialEvents") == "true"
	if match := query.Get("resourceVersionMatch"); b.streams != (match != "") || match != "" && match != "NotOlderThan" {
		path := field.NewPath("resourceVersionMatch")
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "",
			field.ErrorList{field.Forbidden(path, "sendInitialEvents needs resourceVersionMatch NotOlderThan, and the reverse")})
	}
	switch {
	case b.streams || revision == 0:
		b.begun = false
		if b.initial = revision; b.streams && version == "" {
			b.initial = w.revision
		}
	case revision < w.compacted:
		expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, w.compacted))
		b.write("ERROR", statusOf(expired))
		b.ended = true
	default:
		b.at = revision
	}
	return nil
}

// Read implements io.Reader.
func (b *watcher) Read(p []byte) (int, error) {
	for {
		wake, next := b.fill()
		if len(b.rest) > 0 {
			n := copy(p, b.rest)
			b.rest = b.rest[n:]
			return n, nil
		}
		now := time.Now()
		if b.ended || !b.until.IsZero() && !now.Before(b.until) {
			return 0, io.EOF
		}
		if !b.until.IsZero() && b.until.Before(next) {
			next = b.until
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-b.ctx.Done():
			timer.Stop()
			// A connection would return another error. That is an event to client-go, and
			// controller-runtime's informers leak a goroutine that holds the event (watch.Filter).
			return 0, io.EOF
		case <-b.closed:
			timer.Stop()
			return 0, io.EOF
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Close implements io.Closer.
func (b *watcher) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// fill takes what can be shown now. wake is closed when there may be more, at next at the latest.
func (b *watcher) fill() (wake <-chan struct{}, next time.Time) {
	if len(b.rest) > 0 || b.ended {
		return nil, time.Time{}
	}
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	if b.client.muted.Load() {
		return nil, time.Now().Add(time.Second)
	}
	if b.epoch != b.store.epoch {
		b.ended = true
		return nil, time.Time{}
	}
	shown := b.world.revision
	if b.store.frozen != nil {
		shown = b.store.frozen.revision
	}
	if !b.begun && shown >= b.initial {
		b.list(b.store.shown(b.world.revision))
	}
	if b.begun {
		b.events(shown)
	}
	if now := time.Now(); b.bookmarks && b.begun && !now.Before(b.bookmark) {
		b.bookmark = now.Add(bookmarkEvery)
		b.writeBookmark(nil)
	}
	return b.store.wake, b.bookmark.Add(time.Millisecond)
}

// list shows all objects.
func (b *watcher) list(from *snapshot) {
	b.begun, b.at = true, from.revision
	for _, key := range slices.Sorted(maps.Keys(from.objects)) {
		if object := from.objects[key]; b.wanted.matches(object) {
			b.write("ADDED", b.of.shape(object))
		}
	}
	if b.streams && b.bookmarks {
		b.writeBookmark(map[string]any{metav1.InitialEventsAnnotationKey: "true"})
	}
}

// events shows what happened up to a revision. An object that begins or ceases to match is one that
// is added or deleted.
func (b *watcher) events(until int64) {
	events := b.store.events
	for i := sort.Search(len(events), func(i int) bool { return events[i].revision > b.at }); i < len(events); i++ {
		event := &events[i]
		if event.revision > until {
			break
		}
		was, is := b.wanted.matches(event.before), !event.deleted && b.wanted.matches(event.object)
		switch {
		case is && !was:
			b.write("ADDED", b.of.shape(event.object))
		case is:
			b.write("MODIFIED", b.of.shape(event.object))
		case was:
			last := &unstructured.Unstructured{Object: maps.Clone(event.object.Object)}
			if !event.deleted { // The state that still matched, at the revision at which it no longer does.
				last = event.before.DeepCopy()
				last.SetResourceVersion(strconv.FormatInt(event.revision, 10))
			}
			b.write("DELETED", b.of.shape(last))
		}
	}
	b.at = max(b.at, until)
}

func (b *watcher) writeBookmark(annotations map[string]any) {
	metadata := map[string]any{"resourceVersion": strconv.FormatInt(b.at, 10), "creationTimestamp": nil}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"kind": b.of.Resource.Kind, "apiVersion": b.of.Resource.GroupVersion().String(), "metadata": metadata}}
	b.write("BOOKMARK", b.of.shape(object))
}

func (b *watcher) write(kind string, object any) {
	text, err := json.Marshal(object)
	if err != nil {
		b.world.t.Errorf("encoding an event: %v", err)
	}
	b.rest = fmt.Appendf(b.rest, `{"type":%q,"object":%s}`+"\n", kind, text)
}

// Disconnect ends the open watches of a resource, as a restart of the API server does.
func (w *World) Disconnect(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.named(resource)
	s.epoch++
	s.notify()
}
