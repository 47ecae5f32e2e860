package follow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/watch"
)

// Source is how a small kind is listed and watched; a resource of a dynamic client is one.
type Source interface {
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}

// Mirror keeps a value for each object of a small kind in step with the API server. Unlike an
// informer it can follow a custom kind that is not served: the kind has no objects until it is.
type Mirror[T any] struct {
	*watch.Follower
	source Source
	read   func(*unstructured.Unstructured) T

	// shown are the objects that the list under way has shown, nil without one, and have their
	// resourceVersions.
	shown map[string]T
	have  map[string]uint64

	mu      sync.RWMutex
	items   map[string]T
	known   bool
	changed []func(key string, old, new *T)
	listed  chan struct{}

	versions versions
}

// maxRetry bounds the wait after failures. It is short: while the kind is not followed, objects are
// judged by what it said before.
const maxRetry = 2 * time.Second

// NewMirror makes a mirror that keeps the results of read, by "namespace/name", or by name for
// cluster-scoped kinds.
func NewMirror[T any](source Source, read func(*unstructured.Unstructured) T, clock clock.Clock, log logr.Logger) *Mirror[T] {
	m := &Mirror[T]{source: source, read: read, items: map[string]T{}, listed: make(chan struct{})}
	m.Follower = watch.New(watch.Options{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return source.List(ctx, options)
		},
		Watch: source.Watch, Backoff: loop.NewBackoffOf(200*time.Millisecond, maxRetry),
		Begin: m.begin, Observe: m.observe, Deleted: m.deleted, End: m.end, Clock: clock, Log: log,
	})
	return m
}

// OnChange registers a function that is called with each change: old is nil for a new object, new
// for one that is gone. Call it before Run.
func (m *Mirror[T]) OnChange(f func(key string, old, new *T)) { m.changed = append(m.changed, f) }

// All are the objects by key. Until they are known it is an error.
func (m *Mirror[T]) All() (map[string]T, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.known {
		return nil, m.unknown()
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

// Known returns why the objects are not known yet, or nil once they are and each function of
// OnChange was called.
func (m *Mirror[T]) Known() error {
	select {
	case <-m.listed:
		return nil
	default:
	}
	return m.unknown()
}

// unknown is why the objects are not known yet.
func (m *Mirror[T]) unknown() error { return cmp.Or(m.Err(), watch.ErrNotListed) }

// Wait waits until the objects are known, or ctx is done.
func (m *Mirror[T]) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.listed:
		return nil
	}
}

// each passes all objects to take, from a consistent list of their own.
func (m *Mirror[T]) each(ctx context.Context, take func(*unstructured.Unstructured)) (*listing, error) {
	read := &listing{sent: m.Clock.Now(), have: map[string]uint64{}, before: m.versions.latest()}
	var err error
	read.at, err = watch.Each(ctx, metav1.ListOptions{}, m.source.List, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			read.have[keyOf(&page.Items[i])] = versionOf(page.Items[i].GetResourceVersion())
			take(&page.Items[i])
		}
		return nil
	})
	return read, err
}

func (m *Mirror[T]) begin(context.Context) error {
	m.shown, m.have = map[string]T{}, map[string]uint64{}
	return nil
}

func (m *Mirror[T]) observe(_ context.Context, object runtime.Object) error {
	item, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("got a %T where an object was asked for", object)
	}
	key, now := keyOf(item), m.read(item)
	if m.shown != nil {
		m.shown[key], m.have[key] = now, versionOf(item.GetResourceVersion())
		return nil
	}
	m.set(key, &now)
	m.versions.set(key, item.GetResourceVersion())
	return nil
}

func (m *Mirror[T]) deleted(object metav1.Object) {
	m.set(keyOf(object), nil)
	m.versions.drop(keyOf(object), object.GetResourceVersion())
}

func keyOf(object metav1.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// end replaces the objects by what the list has shown.
func (m *Mirror[T]) end(version string) {
	items := m.shown
	m.shown = nil
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
	m.versions.replace(m.have, version)
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
func (v *versions) replace(have map[string]uint64, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have, v.gone, v.at = have, nil, versionOf(version)
	v.newest = v.at
}

// wentBack reports whether the LIST is older than what the copy had learned before: etcd was
// restored from a backup, and resourceVersions order nothing any more.
func (l *listing) wentBack() bool { return versionOf(l.at) < l.before }

// lacks returns the key of an object that the copy does not show as the LIST did, or "". A change
// that the copy learned after the LIST is not lacking.
func (v *versions) lacks(read *listing) string {
	n, back := versionOf(read.at), read.wentBack()
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, version := range read.have {
		mine, ok := v.have[key]
		if ok && mine != version && (mine <= n || back) || !ok && (back || v.gone[key] < version && v.at < n) {
			return key
		}
	}
	for key, mine := range v.have {
		if _, ok := read.have[key]; !ok && (mine <= n || back) {
			return key
		}
	}
	return ""
}
