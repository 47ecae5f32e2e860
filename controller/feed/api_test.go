package feed

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/deletion"
)

// api is an API server with the objects of one kind, at the level at which a feed speaks to it: the
// Kind functions over a map. The real one is in test/e2e.
type api[O client.Object] struct {
	mu       sync.Mutex
	resource schema.GroupResource
	empty    func() O
	newList  func() client.ObjectList
	objects  map[string]O
	version  int
	// watchers are the open watches. They report an object as added when it begins to match their
	// selector, and as deleted, in its last matching state, when it ceases to match.
	watchers map[*watch.RaceFreeFakeWatcher]labels.Selector

	// streams says whether a watch can begin with the list (KEP-3157).
	streams bool
	// page is how many objects a page holds.
	page int
	// stale makes the next watch from a resourceVersion fail as too old; forgets each one from any
	// but the newest.
	stale, forgets bool
	// refuse makes list and watch fail.
	refuse error
	// deaf makes watches from a resourceVersion fail.
	deaf error
	// unserved makes reads fail like reads of a kind that is not served.
	unserved bool
	// broken is how many lists are to be answered with an error of the 500s.
	broken int
	// listed is called, once, with a list read and not answered yet.
	listed func()
	// meddle is called, once, with the next DELETE, before it is looked at. Nothing is locked then.
	meddle func(key string)

	gets      int      // live reads of one object
	lists     []string // namespaces that were listed, "" for all
	selectors []string // namespaces and label selectors of lists
	watches   []string // resourceVersions that were watched from
	asked     []deletion.Request
}

func newAPI[O client.Object](resource string, empty func() O, newList func() client.ObjectList) *api[O] {
	return &api[O]{
		resource: schema.GroupResource{Resource: resource}, empty: empty, newList: newList, objects: map[string]O{}, version: 100,
		watchers: map[*watch.RaceFreeFakeWatcher]labels.Selector{}, streams: true, page: 500,
	}
}

// locked changes the API server.
func (a *api[O]) locked(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func clone[O client.Object](o O) O { return o.DeepCopyObject().(O) }

// put writes an object and tells those who watch. It gets the next resourceVersion.
func (a *api[O]) put(o O) {
	a.locked(func() { a.set(o) })
}

func (a *api[O]) set(o O) {
	a.version++
	o = clone(o)
	o.SetResourceVersion(strconv.Itoa(a.version))
	key := name(o.GetNamespace(), o.GetName())
	if old, known := a.objects[key]; known {
		a.tell(old, o)
	} else {
		a.tell(nil, o)
	}
	a.objects[key] = o
}

// change edits the stored object.
func (a *api[O]) change(key string, edit func(O)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := clone(a.objects[key])
	edit(o)
	a.set(o)
}

func (a *api[O]) tell(old, now client.Object) {
	for watcher, selector := range a.watchers {
		was := old != nil && selector.Matches(labels.Set(old.GetLabels()))
		is := now != nil && selector.Matches(labels.Set(now.GetLabels()))
		switch {
		case was && is:
			watcher.Modify(clone(now))
		case is:
			watcher.Add(clone(now))
		case was:
			last := clone(old)
			last.SetResourceVersion(strconv.Itoa(a.version))
			watcher.Delete(last)
		}
	}
}

func (a *api[O]) remove(key string) {
	a.locked(func() { a.drop(key) })
}

func (a *api[O]) drop(key string) {
	a.version++
	a.tell(a.objects[key], nil)
	delete(a.objects, key)
}

// lose removes an object without a word to those who watch.
func (a *api[O]) lose(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	delete(a.objects, key)
}

// deafen makes watches from a resourceVersion fail with err, until that is nil.
func (a *api[O]) deafen(err error) {
	a.locked(func() { a.deaf = err })
}

// cut ends all watches.
func (a *api[O]) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for watcher := range a.watchers {
		watcher.Stop()
	}
	clear(a.watchers)
}

// matching are the objects of a namespace that match a selector, by name.
func (a *api[O]) matching(namespace string, selector labels.Selector) (found []runtime.Object) {
	for _, key := range slices.Sorted(maps.Keys(a.objects)) {
		if o := a.objects[key]; selector.Matches(labels.Set(o.GetLabels())) && (namespace == "" || o.GetNamespace() == namespace) {
			found = append(found, clone(o))
		}
	}
	return found
}

func (a *api[O]) list(_ context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer func() {
		then := a.listed
		a.listed = nil
		a.mu.Unlock()
		if then != nil {
			then()
		}
	}()
	if a.refuse != nil {
		return nil, a.refuse
	}
	if a.broken > 0 {
		a.broken--
		return nil, apierrors.NewInternalError(fmt.Errorf("broken"))
	}
	if options.Continue == "" {
		a.lists = append(a.lists, namespace)
		a.selectors = append(a.selectors, namespace+" "+options.LabelSelector)
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	key := func(o runtime.Object) string { return name(o.(O).GetNamespace(), o.(O).GetName()) }
	// Objects may have come and gone since the page before.
	rest := slices.DeleteFunc(a.matching(namespace, selector), func(o runtime.Object) bool { return key(o) <= options.Continue })
	page := rest[:min(a.page, len(rest))]
	list := a.newList()
	list.SetResourceVersion(strconv.Itoa(a.version))
	if len(page) < len(rest) {
		list.SetContinue(key(page[len(page)-1]))
	}
	return list, meta.SetList(list, page)
}

func (a *api[O]) watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	switch {
	case a.refuse != nil:
		return nil, a.refuse
	case initial && !a.streams:
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}
	a.watches = append(a.watches, options.ResourceVersion)
	switch {
	case initial:
	case a.stale, a.forgets && options.ResourceVersion != strconv.Itoa(a.version):
		a.stale = false
		return nil, apierrors.NewResourceExpired("too old")
	case a.deaf != nil:
		return nil, a.deaf
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	watcher := watch.NewRaceFreeFake()
	a.watchers[watcher] = selector
	if !initial {
		return watcher, nil
	}
	for _, o := range a.matching("", selector) {
		watcher.Add(o)
	}
	end := a.empty()
	end.SetResourceVersion(strconv.Itoa(a.version))
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	watcher.Action(watch.Bookmark, end)
	return watcher, nil
}

func (a *api[O]) get(_ context.Context, namespace, key string) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gets++
	if a.unserved {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodGet, a.resource, key, "404 page not found", 0, true)
	}
	o, ok := a.objects[name(namespace, key)]
	if !ok {
		return nil, apierrors.NewNotFound(a.resource, key)
	}
	return clone(o), nil
}

// Delete implements deletion.Sender with the preconditions of the API server.
func (a *api[O]) Delete(_ context.Context, r deletion.Request) deletion.Response {
	key := name(r.Namespace, r.Name)
	a.mu.Lock()
	meddle := a.meddle
	a.meddle = nil
	a.mu.Unlock()
	if meddle != nil {
		meddle(key)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r)
	o, ok := a.objects[key]
	switch {
	case !ok:
		return deletion.Response{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, ObjectMissing: true}
	case o.GetUID() != r.UID || o.GetResourceVersion() != r.ResourceVersion:
		return deletion.Response{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	case !r.DryRun:
		a.drop(key)
	}
	return deletion.Response{Code: http.StatusOK}
}

// before runs f once, with the next DELETE, before that is looked at.
func (a *api[O]) before(f func(key string)) {
	a.locked(func() { a.meddle = f })
}

func (a *api[O]) has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.objects[key]
	return ok
}

func (a *api[O]) listings() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.lists)
}

func (a *api[O]) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.objects)
}

func (a *api[O]) setRefuse(err error) {
	a.locked(func() { a.refuse = err })
}
