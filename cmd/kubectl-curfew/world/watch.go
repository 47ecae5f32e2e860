package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy/v1alpha1"
)

// Change is one thing that happened to an object of a kind.
type Change struct {
	Kind Kind
	UID  types.UID
	// Object is nil where it is gone.
	Object map[string]any
}

// Watch tells of all objects of a kind in which the answer can lie, and goes on to tell what happens to them, until ctx is done. listed
// is called once, when all have been told that were there at the beginning, or with why they cannot be, for the time being at least. behind
// is called when what happens cannot be told any more, with why, and with nil once all of it has been told again. Watch
// ends early where the user may not list or watch the kind, or where that is not served any more and so has no objects.
func (w *World) Watch(ctx context.Context, kind Kind, query Query, tell func(Change), listed, behind func(error)) error {
	passes := w.passes(kind, query)
	errs, refused := make([]error, len(passes)), make([]error, len(passes))
	seen := sights{tell: tell, by: map[types.UID]map[int]map[string]any{}}
	var mu sync.Mutex
	failing := make([]error, len(passes))
	turns := func(i int, err error, said bool) {
		mu.Lock()
		defer mu.Unlock()
		was := errors.Join(failing...)
		failing[i] = err
		if is := errors.Join(failing...); !said && (is == nil) != (was == nil) {
			behind(is)
		}
	}
	var group, first sync.WaitGroup
	first.Add(len(passes))
	for i, pass := range passes {
		told := tell
		if len(passes) > 1 {
			told = seen.tells(i)
		}
		group.Go(func() {
			var once sync.Once
			errs[i] = w.follow(ctx, pass, told, func(err error) {
				said := false
				once.Do(func() {
					refused[i] = err
					first.Done()
					said = true // by listed
				})
				if ctx.Err() == nil && !Refused(err) && !Gone(err) { // Of these Watch tells by its end.
					turns(i, err, said)
				}
			})
		})
	}
	first.Wait()
	listed(errors.Join(refused...))
	group.Wait()
	return errors.Join(errs...)
}

// sights are the objects as the passes of a kind see them. One that moves from one pass to another, as a Pod that finishes does, comes in the
// one and goes from the other in either order, and is not gone.
type sights struct {
	tell func(Change)

	mu sync.Mutex
	by map[types.UID]map[int]map[string]any
}

// tells is where one of the passes tells what it sees.
func (s *sights) tells(pass int) func(Change) {
	return func(change Change) {
		s.mu.Lock()
		defer s.mu.Unlock()
		states := s.by[change.UID]
		if change.Object != nil {
			if states == nil {
				states = map[int]map[string]any{}
				s.by[change.UID] = states
			}
			states[pass] = change.Object
			s.tell(change)
			return
		}
		delete(states, pass)
		for _, object := range states {
			change.Object = object // What another pass sees may have been overtaken by what this one saw before.
		}
		if change.Object == nil {
			delete(s.by, change.UID)
		}
		s.tell(change)
	}
}

// follow lists, watches, and lists again where the watch cannot go on. listed is called after each list, after each attempt that failed,
// with why, and where ctx is done.
func (w *World) follow(ctx context.Context, p pass, tell func(Change), listed func(error)) error {
	defer func() {
		if ctx.Err() != nil {
			listed(ctx.Err())
		}
	}()
	known := map[types.UID]bool{}
	delay := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	for ctx.Err() == nil {
		from, err := w.relist(ctx, p, known, tell)
		if err == nil {
			listed(nil)
			delay.Steps, delay.Duration = 6, time.Second
			err = w.stream(ctx, p, from, known, tell)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case Refused(err) || Gone(err):
			if Gone(err) {
				for uid := range known { // It has taken its objects along.
					tell(Change{Kind: p.kind, UID: uid})
				}
			}
			listed(err)
			return err
		case err != nil:
			listed(err)
		}
		timer := time.NewTimer(delay.Step())
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// relist tells of all that is there, and of what has gone since it was known.
func (w *World) relist(ctx context.Context, p pass, known map[types.UID]bool, tell func(Change)) (from string, err error) {
	options, seen := p.options, map[types.UID]bool{}
	options.Limit = pageSize
	for {
		page, err := w.page(ctx, p, options)
		if forgotten(err, options) {
			options.Continue, options.Limit, from, seen = "", 0, "", map[types.UID]bool{}
			continue
		}
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", p.kind.GroupResource(), err)
		}
		if from == "" {
			from = page.resourceVersion
		}
		for _, object := range page.objects {
			uid := uidOf(object)
			seen[uid], known[uid] = true, true
			tell(Change{Kind: p.kind, UID: uid, Object: object})
		}
		if options.Continue = page.next; options.Continue == "" {
			break
		}
	}
	for uid := range known {
		if !seen[uid] {
			delete(known, uid)
			tell(Change{Kind: p.kind, UID: uid})
		}
	}
	return from, nil
}

// stream tells of changes until the watch ends.
func (w *World) stream(ctx context.Context, p pass, from string, known map[types.UID]bool, tell func(Change)) error {
	events, err := w.watch(ctx, p, from)
	if err != nil {
		return fmt.Errorf("watching %s: %w", p.kind.GroupResource(), err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-events.ResultChan():
			switch {
			case !ok:
				return nil
			case event.Type == watch.Error:
				return fmt.Errorf("watching %s: %w", p.kind.GroupResource(), apierrors.FromObject(event.Object))
			case event.Type == watch.Bookmark:
				continue
			}
			object, uid, err := w.objectOf(p.kind, event.Object)
			if err != nil {
				return err
			}
			if event.Type == watch.Deleted {
				delete(known, uid)
				object = nil
			} else {
				known[uid] = true
			}
			tell(Change{Kind: p.kind, UID: uid, Object: object})
		}
	}
}

func (w *World) objectOf(kind Kind, object runtime.Object) (map[string]any, types.UID, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, "", fmt.Errorf("got a %T where an object was asked for", object)
	}
	out, err := w.content(kind, object)
	return out, accessor.GetUID(), err
}

func uidOf(object map[string]any) types.UID {
	metadata, _ := object["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	return types.UID(uid)
}

// WatchAround calls changed whenever something changes that surrounds objects of some kinds: what namespaces, LifecyclePolicies,
// KindProfiles and training runtimes say, and how the controller is set. What the user may not watch is passed over. It returns when ctx is
// done.
//
// It calls settled once nothing can go unnoticed any more. What Open read is compared with what is there then; what is read later, a
// namespace when the first of its objects is judged, has to be read after that.
func (w *World) WatchAround(ctx context.Context, kinds []Kind, namespace string, settled, changed func()) {
	var group, first sync.WaitGroup
	for _, p := range w.around(kinds, namespace) {
		first.Add(1)
		group.Go(func() {
			told := map[types.UID]string{}
			complete, attempted := false, false
			_ = w.follow(ctx, p, func(change Change) {
				if change.Object == nil {
					delete(told, change.UID)
				} else if is := digest(change.Object); told[change.UID] != is {
					told[change.UID] = is
				} else {
					return
				}
				if complete {
					changed()
				}
			}, func(err error) {
				if err == nil && !complete {
					complete = true
					read, ok := w.opened[p.kind.At()]
					// After a list that failed others have begun to read.
					if attempted || ok && !maps.Equal(read, told) {
						changed()
					}
				}
				if !attempted {
					attempted = true
					first.Done()
				}
			})
		})
	}
	first.Wait()
	settled()
	group.Wait()
}

// around are what surrounds objects of some kinds. What Open reads whole is watched whole, so that both can be compared.
func (w *World) around(kinds []Kind, namespace string) []pass {
	of := func(at schema.GroupVersionResource, metadata bool) pass {
		return pass{kind: Kind{GroupVersionKind: at.GroupVersion().WithKind(at.Resource), Resource: at.Resource}, metadata: metadata}
	}
	namespaces := of(namespaceResource, true)
	if namespace != "" {
		namespaces.options.FieldSelector = "metadata.name=" + namespace
	}
	controller := of(deployments, false)
	controller.namespace, controller.options.LabelSelector = w.options.Namespace, controllerSelector
	out := []pass{
		namespaces, controller,
		of(v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies), false), of(v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles), false),
	}
	seen := map[schema.GroupVersionResource]bool{}
	for _, kind := range kinds {
		compiled := w.platform.Compiled(kind.GroupKind())
		if compiled == nil || compiled.Runtime == nil {
			continue
		}
		runtimes := compiled.Runtime.Kinds()
		for i, at := range compiled.Runtime.Resources() {
			if seen[at] {
				continue
			}
			seen[at] = true
			runtime := of(at, true)
			if !compiled.Runtime.ClusterScoped(runtimes[i].GroupKind()) {
				runtime.namespace = namespace
			}
			out = append(out, runtime)
		}
	}
	return out
}

// remember notes what Open read of an object that others are judged by.
func (w *World) remember(at schema.GroupVersionResource, object map[string]any) {
	w.opened[at][uidOf(object)] = digest(object)
}

// digest is what objects are judged by, of what surrounds them. The controller has the status of a LifecyclePolicy say since when its
// defaults hold.
func digest(object map[string]any) string {
	u := unstructured.Unstructured{Object: object}
	since, _, _ := unstructured.NestedString(object, "status", "defaultSince")
	return fmt.Sprint(u.GetGeneration(), u.GetLabels(), u.GetAnnotations(), since)
}
