package world

import (
	"context"
	"errors"
	"fmt"
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
// is called once, when all have been told that were there at the beginning, or with why they cannot be. Watch ends early where the user
// may not list or watch the kind.
func (w *World) Watch(ctx context.Context, kind Kind, query Query, tell func(Change), listed func(error)) error {
	passes := w.passes(kind, query)
	errs, refused := make([]error, len(passes)), make([]error, len(passes))
	var group, first sync.WaitGroup
	first.Add(len(passes))
	for i, pass := range passes {
		group.Go(func() {
			var once sync.Once
			errs[i] = w.follow(ctx, pass, tell, func(err error) {
				once.Do(func() {
					refused[i] = err
					first.Done()
				})
			})
		})
	}
	first.Wait()
	listed(errors.Join(refused...))
	group.Wait()
	return errors.Join(errs...)
}

// follow lists, watches, and lists again where the watch cannot go on. listed is called after each list, and before it ends.
func (w *World) follow(ctx context.Context, p pass, tell func(Change), listed func(error)) error {
	defer listed(nil)
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
			err = fmt.Errorf("watching %s: %w", p.kind.GroupResource(), err)
			listed(err)
			return err
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
		if err != nil {
			return "", err
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
		return err
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
				return apierrors.FromObject(event.Object)
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

// WatchAround calls changed once something has changed that surrounds objects: what a namespace or a LifecyclePolicy says. What the user
// may not watch is passed over. It returns when ctx is done.
func (w *World) WatchAround(ctx context.Context, namespace string, changed func()) {
	var group sync.WaitGroup
	for _, at := range []schema.GroupVersionResource{namespaceResource, v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies)} {
		p := pass{kind: Kind{GroupVersionKind: at.GroupVersion().WithKind(at.Resource), Resource: at.Resource, ClusterScoped: true}, metadata: true}
		if at == namespaceResource && namespace != "" {
			p.options.FieldSelector = "metadata.name=" + namespace
		}
		group.Go(func() {
			told := map[types.UID]string{}
			settled := false
			_ = w.follow(ctx, p, func(change Change) {
				is := ""
				if change.Object != nil {
					is = digest(change.Object)
				}
				if was, ok := told[change.UID]; settled && (!ok || was != is) {
					changed()
				}
				told[change.UID] = is
			}, func(error) { settled = true })
		})
	}
	group.Wait()
}

// digest is what objects are judged by, of the metadata of what surrounds them.
func digest(object map[string]any) string {
	u := unstructured.Unstructured{Object: object}
	return fmt.Sprint(u.GetGeneration(), u.GetLabels(), u.GetAnnotations())
}
