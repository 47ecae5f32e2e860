package follow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/controller/paging"
)

func (m *Mirror[T]) list(ctx context.Context) (string, error) {
	items := map[string]T{}
	at, err := paging.Each(ctx, metav1.ListOptions{}, m.source.List, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			items[keyOf(&page.Items[i])] = m.read(&page.Items[i])
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	m.replace(items)
	return at, nil
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
			default:
				item := m.read(object)
				m.set(keyOf(object), &item)
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

func (m *Mirror[T]) replace(items map[string]T) {
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
