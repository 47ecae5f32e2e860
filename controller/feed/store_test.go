package feed

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// store is the metadata of the objects of one kind in an API server, watched by selector: what
// begins to match is told as added, and what ceases to match as deleted, in its last matching
// state, as the API server does.
type store struct {
	mu       sync.Mutex
	objects  map[string]*metav1.PartialObjectMetadata
	version  int
	watchers map[*watch.RaceFreeFakeWatcher]labels.Selector
	lists    int
	wholes   atomic.Int32 // objects that were read whole
	spec     map[string]any
	refuse   error // of lists and watches
	deletes  atomic.Int32
	meddle   func(key string) // runs once, with the next DELETE, before it is looked at; the store is not locked
}

func newStore() *store {
	return &store{objects: map[string]*metav1.PartialObjectMetadata{}, version: 100, watchers: map[*watch.RaceFreeFakeWatcher]labels.Selector{}}
}

func (s *store) put(object *metav1.PartialObjectMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	object = object.DeepCopy()
	object.ResourceVersion = strconv.Itoa(s.version)
	key := name(object.Namespace, object.Name)
	s.tell(s.objects[key], object)
	s.objects[key] = object
}

// change edits the stored object.
func (s *store) change(key string, edit func(*metav1.PartialObjectMetadata)) {
	s.mu.Lock()
	object := s.objects[key].DeepCopy()
	s.mu.Unlock()
	edit(object)
	s.put(object)
}

func (s *store) label(key, value string) {
	s.change(key, func(o *metav1.PartialObjectMetadata) {
		if value == "" {
			delete(o.Labels, wellknown.LabelTTL)
		} else {
			o.Labels = map[string]string{wellknown.LabelTTL: value}
		}
	})
}

func (s *store) tell(old, object *metav1.PartialObjectMetadata) {
	for watcher, selector := range s.watchers {
		was := old != nil && selector.Matches(labels.Set(old.Labels))
		is := object != nil && selector.Matches(labels.Set(object.Labels))
		switch {
		case was && is:
			watcher.Modify(object.DeepCopy())
		case is:
			watcher.Add(object.DeepCopy())
		case was:
			last := old.DeepCopy()
			last.ResourceVersion = strconv.Itoa(s.version)
			watcher.Delete(last)
		}
	}
}

func (s *store) list(_ context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.refuse != nil {
		return nil, s.refuse
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[key]; selector.Matches(labels.Set(o.Labels)) && (namespace == "" || o.Namespace == namespace) {
			list.Items = append(list.Items, *o.DeepCopy())
		}
	}
	list.ResourceVersion = strconv.Itoa(s.version)
	return list, nil
}

func (s *store) watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	watcher := watch.NewRaceFreeFake()
	s.watchers[watcher] = selector
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		for _, key := range slices.Sorted(maps.Keys(s.objects)) {
			if o := s.objects[key]; selector.Matches(labels.Set(o.Labels)) {
				watcher.Add(o.DeepCopy())
			}
		}
		end := &metav1.PartialObjectMetadata{}
		end.ResourceVersion = strconv.Itoa(s.version)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		watcher.Action(watch.Bookmark, end)
	}
	return watcher, nil
}

func (s *store) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watcher := range s.watchers {
		watcher.Stop()
	}
	clear(s.watchers)
}

func (s *store) get(_ context.Context, namespace, key string) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[name(namespace, key)]; ok {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key)
}

func (s *store) whole(ctx context.Context, namespace, key string) (runtime.Object, error) {
	object, err := s.get(ctx, namespace, key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wholes.Add(1)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	content["spec"] = s.spec
	return &unstructured.Unstructured{Object: content}, err
}

// Delete implements engine.Deleter with the preconditions of the API server.
func (s *store) Delete(_ context.Context, r deletion.Request) deletion.Response {
	key := name(r.Namespace, r.Name)
	s.mu.Lock()
	meddle := s.meddle
	s.meddle = nil
	s.mu.Unlock()
	if meddle != nil {
		meddle(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletes.Add(1)
	o, ok := s.objects[key]
	switch {
	case !ok:
		return deletion.Response{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, ObjectMissing: true}
	case o.UID != r.UID || o.ResourceVersion != r.ResourceVersion:
		return deletion.Response{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	case r.DryRun:
		return deletion.Response{Code: http.StatusOK}
	}
	delete(s.objects, key)
	s.version++
	s.tell(o, nil)
	return deletion.Response{Code: http.StatusOK}
}

// before runs f once, with the next DELETE, before that is looked at.
func (s *store) before(f func(key string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meddle = f
}

func (s *store) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[key]
	return ok
}

// config is an object that is created now, with labels.
func config(name string, pairs ...string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.Namespace, o.Name, o.UID = "ci", name, types.UID("uid-"+name)
	o.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	o.Labels = map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Labels[pairs[i]] = pairs[i+1]
	}
	return o
}

// nothing is a metadata client that is never asked: the tests bring functions of their own.
type nothing struct{ metadata.Interface }

func (nothing) Resource(schema.GroupVersionResource) metadata.Getter { return nil }

// in is the label's form of an instant.
func in(d time.Duration) string { return lifetime.TTLLabel{At: time.Now().Add(d)}.String() }

// stock runs feeds over a store, and their engine, until the test ends. Call it inside a synctest
// bubble.
func stock(t *testing.T, s *store, n *namespaces, change func(*Options), kinds ...LabelledKind) ([]*Feed, *engine.Engine) {
	t.Helper()
	engine, err := engine.New(engine.Options{Triggers: triggers(s), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Engine: engine, Clock: clock.RealClock{}, Log: logr.Discard(), Protect: []string{"curfew-system", "kube-system"}}
	over(&options, func(r *reads) { r.namespaces = n })
	if change != nil {
		change(&options)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = options.Engine.Run(ctx) })
	var feeds []*Feed
	for _, labelled := range kinds {
		if labelled.Resource == "" {
			labelled.Kind, labelled.Resource = configMap, "configmaps"
		}
		kind := Labelled(nothing{}, nil, labelled)
		kind.List, kind.Watch, kind.Get, kind.Whole = s.list, s.watch, s.get, s.whole
		one, err := New(kind, options)
		if err != nil {
			t.Fatal(err)
		}
		feeds = append(feeds, one)
		group.Go(func() { _ = one.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		s.cut()
		group.Wait()
	})
	return feeds, options.Engine
}

func expectOn(t *testing.T, s *store, key string, there bool) {
	t.Helper()
	if s.has(key) != there {
		t.Errorf("at %s: %s exists: %v, want %v", time.Now().Format("15:04:05.000"), key, !there, there)
	}
}
