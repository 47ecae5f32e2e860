package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/paging"
)

// Source is how a small kind is listed and watched; a resource of a dynamic client is one.
type Source interface {
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Mirror keeps a value for each object of a small kind in step with the API server. Unlike an
// informer it can follow a custom kind that is not served: the kind has no objects until it is.
type Mirror[T any] struct {
	source Source
	read   func(*unstructured.Unstructured) T
	clock  clock.Clock
	log    logr.Logger
	// unserved reports whether the kind is not served; nil for kinds that always are. A 404 for a list
	// does not say so: a proxy may have sent it.
	unserved func(context.Context) (bool, error)

	// following is whether a watch is open that began with the last list.
	following atomic.Bool

	mu      sync.RWMutex
	items   map[string]T
	known   bool
	err     error
	changed []func(key string, old, new *T)
	wake    loop.Signal
	again   loop.Signal // begin again with a list
	listed  chan struct{}

	versions versions
}

const (
	// absentFor is how long a kind that is not served is left alone, and at most one that may not be
	// read. Wake cuts it short.
	absentFor = 30 * time.Second
	// retryFirst and maxRetry bound the wait after other failures. It is short: while the kind is not
	// followed, objects are judged by what it said before. For the same reason the first refusals are
	// retried at once: an API server that has just started refuses until it has read its roles.
	retryFirst = 200 * time.Millisecond
	maxRetry   = 2 * time.Second
)

// errNotKnown: the API server has not answered yet.
var errNotKnown = errors.New("not listed yet")

// NewMirror makes a mirror that keeps the results of read, by "namespace/name", or by name for
// cluster-scoped kinds.
func NewMirror[T any](source Source, read func(*unstructured.Unstructured) T, clock clock.Clock, log logr.Logger) *Mirror[T] {
	return &Mirror[T]{
		source: source, read: read, clock: clock, log: log, items: map[string]T{}, err: errNotKnown, wake: loop.NewSignal(),
		again: loop.NewSignal(), listed: make(chan struct{}),
	}
}

// OnChange registers a function that is called with each change: old is nil for a new object, new
// for one that is gone. Call it before Run.
func (m *Mirror[T]) OnChange(f func(key string, old, new *T)) { m.changed = append(m.changed, f) }

// restart lists and watches again.
func (m *Mirror[T]) restart() {
	m.again.Set()
	m.wake.Set()
}

// Wake looks again at a kind that was not served.
func (m *Mirror[T]) Wake() {
	m.wake.Set()
}

// All are the objects by key. Until they are known it is an error.
func (m *Mirror[T]) All() (map[string]T, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.known {
		return nil, m.err
	}
	return maps.Clone(m.items), nil
}

// Get is one object.
func (m *Mirror[T]) Get(key string) (T, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	item, ok := m.items[key]
	return item, ok
}

// absent reports whether the error of a list or watch means that there are no objects, because the
// kind is not served.
func (m *Mirror[T]) absent(ctx context.Context, err error) bool {
	if m.unserved == nil || !apierrors.IsNotFound(err) {
		return false
	}
	unserved, err := m.unserved(ctx)
	return err == nil && unserved
}

// Known returns why the objects are not known yet, or nil once they are and each function of
// OnChange was called.
func (m *Mirror[T]) Known() error {
	select {
	case <-m.listed:
		return nil
	default:
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.err == nil {
		return errNotKnown
	}
	return m.err
}

// Wait waits until the objects are known, or ctx is done.
func (m *Mirror[T]) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.listed:
		return nil
	}
}

// Run follows the kind until ctx is done.
func (m *Mirror[T]) Run(ctx context.Context) {
	delay, forbidden, absent := loop.NewBackoffOf(retryFirst, maxRetry), loop.NewBackoffOf(retryFirst, absentFor), false
	for ctx.Err() == nil {
		at, err := m.list(ctx)
		if err == nil {
			delay.Reset()
			forbidden.Reset()
			if absent {
				absent = false
				m.log.Info("CRD is installed")
			}
			err = m.follow(ctx, at)
		}
		pause := delay.Next()
		switch {
		case ctx.Err() != nil:
			return
		case m.absent(ctx, err):
			m.replace(map[string]T{}, &listing{})
			if pause = absentFor; !absent {
				absent = true
				m.log.Info("CRD is not installed: none of its objects count until it is")
			}
		case err != nil:
			if apierrors.IsForbidden(err) || m.unserved == nil && apierrors.IsNotFound(err) { // Its API group may be switched off.
				pause = forbidden.Next()
			}
			m.mu.Lock()
			again := m.err != nil && m.err.Error() == err.Error()
			m.err = err
			m.mu.Unlock()
			if !again {
				m.log.Info("list and watch failed, trying again", "reason", err.Error())
			}
		}
		m.wake.Wait(ctx, m.clock, pause)
	}
}

// each passes all objects to take, from a consistent list of their own.
func (m *Mirror[T]) each(ctx context.Context, take func(*unstructured.Unstructured)) (*listing, error) {
	read := &listing{sent: m.clock.Now(), have: map[string]uint64{}, before: m.versions.latest()}
	var err error
	read.at, err = paging.Each(ctx, metav1.ListOptions{}, m.source.List, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			read.have[keyOf(&page.Items[i])] = versionOf(page.Items[i].GetResourceVersion())
			take(&page.Items[i])
		}
		return nil
	})
	return read, err
}

func (m *Mirror[T]) list(ctx context.Context) (string, error) {
	m.again.Clear()
	items := map[string]T{}
	read, err := m.each(ctx, func(item *unstructured.Unstructured) { items[keyOf(item)] = m.read(item) })
	if err != nil {
		return "", err
	}
	m.replace(items, read)
	return read.at, nil
}

// follow handles events until the watch can no longer go on.
func (m *Mirror[T]) follow(ctx context.Context, at string) error {
	events, err := m.source.Watch(ctx, metav1.ListOptions{ResourceVersion: at, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer events.Stop()
	m.following.Store(true)
	defer m.following.Store(false)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.again:
			return nil
		case event, ok := <-events.ResultChan():
			if !ok {
				return nil // The kind is small: it is listed again.
			}
			object, isObject := event.Object.(*unstructured.Unstructured)
			switch {
			case event.Type == watch.Error:
				return apierrors.FromObject(event.Object)
			case event.Type == watch.Bookmark:
			case !isObject:
				return fmt.Errorf("got a %T where an object was asked for", event.Object)
			case event.Type == watch.Deleted:
				m.set(keyOf(object), nil)
				m.versions.drop(keyOf(object), object.GetResourceVersion())
			default:
				m.set(keyOf(object), new(m.read(object)))
				m.versions.set(keyOf(object), object.GetResourceVersion())
			}
		}
	}
}

func keyOf(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

func (m *Mirror[T]) replace(items map[string]T, read *listing) {
	m.mu.Lock()
	old, first := m.items, !m.known
	m.items, m.known = items, true
	m.mu.Unlock()
	for key, item := range items {
		if before, ok := old[key]; ok {
			m.tell(key, &before, &item)
		} else {
			m.tell(key, nil, &item)
		}
	}
	for key, before := range old {
		if _, ok := items[key]; !ok {
			m.tell(key, &before, nil)
		}
	}
	m.versions.replace(read.have, read.at)
	if first && len(items) == 0 {
		m.tell("", nil, nil) // That there are none is news too.
	}
	if first {
		close(m.listed)
	}
}

func (m *Mirror[T]) set(key string, item *T) {
	m.mu.Lock()
	var old *T
	if before, ok := m.items[key]; ok {
		old = &before
	}
	if item == nil {
		delete(m.items, key)
	} else {
		m.items[key] = *item
	}
	m.mu.Unlock()
	m.tell(key, old, item)
}

func (m *Mirror[T]) tell(key string, old, new *T) {
	for _, f := range m.changed {
		f(key, old, new)
	}
}

// listing is what a consistent LIST of a kind showed.
type listing struct {
	sent time.Time
	at   string            // resourceVersion of the list
	have map[string]uint64 // resourceVersions by key
	// before is the newest resourceVersion that the copy had when the LIST was sent.
	before uint64
	// changed are the objects that a copy lacked during the LIST; of Namespaces only.
	changed []*metav1.PartialObjectMetadata
}

// unservedListing is the listing of a kind that is not served.
func unservedListing(sent time.Time) *listing {
	return &listing{sent: sent, at: strconv.FormatUint(math.MaxUint64, 10)}
}

// versions are the resourceVersions of the objects in a local copy, and of objects that were
// deleted from it. A change is in here once all who depend on it know of it.
type versions struct {
	mu         sync.Mutex
	have, gone map[string]uint64
	at, newest uint64 // of the last LIST, and of all that the copy learned
}

// maxGone bounds how many deleted objects are remembered. They are needed for about a second.
const maxGone = 1000

// versionOf reads a resourceVersion. API servers have always counted with etcd's revision, and have
// to from Kubernetes 1.35 on (KEP-5504).
func versionOf(text string) uint64 {
	version, _ := strconv.ParseUint(text, 10, 64)
	return version
}

func (v *versions) set(key, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.have == nil {
		v.have = map[string]uint64{}
	}
	v.have[key] = versionOf(version)
	v.newest = max(v.newest, v.have[key])
}

// latest is the newest resourceVersion that the copy learned.
func (v *versions) latest() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.newest
}

func (v *versions) drop(key, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.have, key)
	if v.gone == nil || len(v.gone) >= maxGone {
		v.gone = map[string]uint64{}
	}
	v.gone[key] = versionOf(version)
	v.newest = max(v.newest, v.gone[key])
}

// replace takes over what a LIST at a resourceVersion showed.
func (v *versions) replace(have map[string]uint64, at string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have, v.gone, v.at = have, nil, versionOf(at)
	v.newest = v.at
}

// wentBack reports whether the LIST is older than what the copy had learned before: etcd was
// restored from a backup, and resourceVersions order nothing any more.
func (l *listing) wentBack() bool { return versionOf(l.at) < l.before }

// lacks returns the key of an object that the copy does not show as the LIST did, or "". A change
// that the copy learned after the LIST is not lacking.
func (v *versions) lacks(read *listing) string {
	at, back := versionOf(read.at), read.wentBack()
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, version := range read.have {
		mine, ok := v.have[key]
		if ok && mine != version && (mine <= at || back) || !ok && (back || v.gone[key] < version && v.at < at) {
			return key
		}
	}
	for key, mine := range v.have {
		if _, ok := read.have[key]; !ok && (mine <= at || back) {
			return key
		}
	}
	return ""
}
