package follow

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// source is a Source over a map.
type source struct {
	mu       sync.Mutex
	absent   bool
	objects  map[string]*unstructured.Unstructured
	watchers []*watch.RaceFreeFakeWatcher
	version  int
	history  []watch.Event // by version
}

func newSource() *source { return &source{objects: map[string]*unstructured.Unstructured{}} }

func (s *source) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absent {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	list := &unstructured.UnstructuredList{}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		list.Items = append(list.Items, *s.objects[name].DeepCopy())
	}
	list.SetResourceVersion(strconv.Itoa(s.version))
	return list, nil
}

func (s *source) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := strconv.Atoi(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	watcher := watch.NewRaceFreeFake()
	for _, event := range s.history[from:] {
		watcher.Action(event.Type, event.Object.DeepCopyObject())
	}
	s.watchers = append(s.watchers, watcher)
	return watcher, nil
}

// tell notes an event under the next version, from which a watch may begin. The mutex is held.
func (s *source) tell(kind watch.EventType, object *unstructured.Unstructured) {
	s.version++
	if kind != watch.Deleted {
		object.SetResourceVersion(strconv.Itoa(s.version))
	}
	s.history = append(s.history, watch.Event{Type: kind, Object: object.DeepCopy()})
	for _, watcher := range s.watchers {
		watcher.Action(kind, object.DeepCopy())
	}
}

func (s *source) put(object *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Added
	if s.objects[object.GetName()] != nil {
		kind = watch.Modified
	}
	s.tell(kind, object)
	s.objects[object.GetName()] = object
}

func (s *source) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[name]
	delete(s.objects, name)
	s.tell(watch.Deleted, object)
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
