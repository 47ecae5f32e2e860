package builders

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Source is a small kind in memory that can be listed and watched.
type Source struct {
	mu       sync.Mutex
	absent   bool
	objects  map[string]*unstructured.Unstructured
	watchers map[*watch.RaceFreeFakeWatcher]metav1.ListOptions
	version  int
	history  []watch.Event // by version
}

// MakeSource makes a kind that is served and has no objects.
func MakeSource() *Source {
	return &Source{objects: map[string]*unstructured.Unstructured{}, watchers: map[*watch.RaceFreeFakeWatcher]metav1.ListOptions{}}
}

// selects reports whether options are for all objects, or for this one by its name.
func selects(options metav1.ListOptions, object *unstructured.Unstructured) bool {
	return options.FieldSelector == "" || options.FieldSelector == "metadata.name="+object.GetName()
}

// List implements a client.
func (s *Source) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absent {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	list := &unstructured.UnstructuredList{}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if selects(options, s.objects[name]) {
			list.Items = append(list.Items, *s.objects[name].DeepCopy())
		}
	}
	list.SetResourceVersion(strconv.Itoa(s.version))
	return list, nil
}

// Watch implements a client.
func (s *Source) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := strconv.Atoi(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	watcher := watch.NewRaceFreeFake()
	for _, event := range s.history[from:] {
		if selects(options, event.Object.(*unstructured.Unstructured)) {
			watcher.Action(event.Type, event.Object.DeepCopyObject())
		}
	}
	s.watchers[watcher] = options
	return watcher, nil
}

// notify records an event under the next version, from which a watch may begin. The mutex is held.
func (s *Source) notify(kind watch.EventType, object *unstructured.Unstructured) {
	s.version++
	if kind != watch.Deleted {
		object.SetResourceVersion(strconv.Itoa(s.version))
	}
	s.history = append(s.history, watch.Event{Type: kind, Object: object.DeepCopy()})
	for watcher, options := range s.watchers {
		if selects(options, object) {
			watcher.Action(kind, object.DeepCopy())
		}
	}
}

// Put creates or updates an object.
func (s *Source) Put(object *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Added
	if s.objects[object.GetName()] != nil {
		kind = watch.Modified
	}
	s.notify(kind, object)
	s.objects[object.GetName()] = object
}

// Remove deletes an object.
func (s *Source) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[name]
	delete(s.objects, name)
	s.notify(watch.Deleted, object)
}

// Get returns a copy of an object.
func (s *Source) Get(name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name].DeepCopy()
}

// SetAbsent decides whether the kind is not served.
func (s *Source) SetAbsent(absent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent = absent
}

// EndWatches ends all watches.
func (s *Source) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watcher := range s.watchers {
		watcher.Stop()
	}
	clear(s.watchers)
}
