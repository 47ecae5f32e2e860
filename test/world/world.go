package world

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"curfew.dev/curfew/test/world/invariants"
)

// World is an API server and its etcd.
type World struct {
	t         testing.TB
	mu        sync.Mutex
	revision  int64
	compacted int64
	uids      int
	offset    time.Duration
	stores    map[schema.GroupResource]*store
	order     []*store
	history   []*invariants.Record
	lists     map[string]*snapshot
	changed   chan struct{} // closed at each write
	// missingConflicts: see [World.MissingConflicts].
	missingConflicts bool
}

// store holds the objects of one resource. Objects are never changed once they are in it.
type store struct {
	Resource
	objects map[string]*unstructured.Unstructured
	events  []event
	frozen  *snapshot     // what the watch cache shows; nil: all
	wake    chan struct{} // closed when watches may go on
	epoch   int           // how often all watches were cut
}

// event is one write. object is the state after it, or, of a deletion, the last one.
type event struct {
	revision       int64
	key            string
	object, before *unstructured.Unstructured // before is nil for a new object
	deleted        bool
}

// snapshot is the state of a store at a revision.
type snapshot struct {
	revision int64
	objects  map[string]*unstructured.Unstructured
}

// New makes a cluster that serves the built-in resources that Curfew reads, and has the namespaces
// that every cluster has. The test fails if it uses the cluster wrongly.
func New(t testing.TB) *World {
	w := &World{t: t, revision: 100, stores: map[schema.GroupResource]*store{}, lists: map[string]*snapshot{}, changed: make(chan struct{})}
	for _, resource := range builtin() {
		w.Serve(resource)
	}
	for _, name := range []string{"default", "kube-system", "curfew-system"} {
		if _, err := w.Create("namespaces", map[string]any{"metadata": map[string]any{"name": name}}); err != nil {
			t.Errorf("creating Namespace %s: %v", name, err)
		}
	}
	return w
}

// Serve adds a resource.
func (w *World) Serve(resource Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &store{Resource: resource, objects: map[string]*unstructured.Unstructured{}, wake: make(chan struct{})}
	w.stores[resource.GroupResource()] = s
	w.order = append(w.order, s)
}

// SetOffset sets the API server's clock: so much ahead of the processes'.
func (w *World) SetOffset(offset time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset = offset
}

// MissingConflicts has the API server answer as up to Kubernetes 1.33: an update that names the UID
// of a missing object conflicts.
func (w *World) MissingConflicts() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missingConflicts = true
}

// Now is the API server's time.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

func (w *World) now() time.Time { return time.Now().Add(w.offset) }

// History returns the records so far.
func (w *World) History() []*invariants.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.history)
}

// Objects returns all objects of a resource, by name. Do not change them.
func (w *World) Objects(resource string) []*unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.named(resource)
	var out []*unstructured.Unstructured
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		out = append(out, s.objects[key])
	}
	return out
}

// Freeze stops what the watch cache of a resource shows; watches stay open and silent. Consistent
// LISTs and GETs still read etcd.
func (w *World) Freeze(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.named(resource); s.frozen == nil {
		s.frozen = s.snapshot(w.revision)
	}
}

// Thaw lets the watch cache catch up.
func (w *World) Thaw(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.named(resource)
	s.frozen = nil
	s.notify()
}

// Compact forgets what happened so far: watches from older resourceVersions, and pages of older
// lists, are answered with 410.
func (w *World) Compact() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compacted = w.revision
	clear(w.lists)
	for _, s := range w.order {
		if s.frozen == nil {
			s.events = nil
		}
	}
}

// named finds a store by the plural of its resource, with its group behind a dot if it has one.
func (w *World) named(resource string) *store {
	s := w.stores[schema.ParseGroupResource(resource)]
	if s == nil {
		w.t.Errorf("no resource %s is served", resource)
		s = &store{objects: map[string]*unstructured.Unstructured{}, wake: make(chan struct{})}
	}
	return s
}

func (s *store) snapshot(revision int64) *snapshot {
	return &snapshot{revision, maps.Clone(s.objects)}
}

// notify wakes up the watches of the store.
func (s *store) notify() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// commit stores an object under a new revision, or removes it.
func (w *World) commit(s *store, object *unstructured.Unstructured, remove bool) {
	w.revision++
	key := keyOf(object.GetNamespace(), object.GetName())
	before := s.objects[key]
	object.SetResourceVersion(strconv.FormatInt(w.revision, 10))
	if remove {
		delete(s.objects, key)
	} else {
		s.objects[key] = object
	}
	s.events = append(s.events, event{w.revision, key, object, before, remove})
	s.notify()
	close(w.changed)
	w.changed = make(chan struct{})
}

// note records what a request did.
func (w *World) note(r *Request, code int, before, after *unstructured.Unstructured) *invariants.Record {
	record := &invariants.Record{
		Client: r.Client, User: r.User, Verb: r.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Kind: r.Resource.Kind,
		Namespace: r.Namespace, Name: r.Name, Sent: r.Sent, At: w.now(), Code: code, Before: before, After: after, DryRun: r.dryRun(),
		Consistent: r.query.Get("resourceVersion") == "" && r.query.Get("continue") == "" && r.query.Get("fieldSelector") == "",
	}
	if r.Options != nil {
		record.Preconditions = r.Options.Preconditions
	}
	w.history = append(w.history, record)
	return record
}

// timestamp is a time as objects carry it.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Do sends a request in the name of a client, past all faults, and returns the object after it. The
// client acts as a user of its name unless the request names one.
func (w *World) Do(client string, r Request) (*unstructured.Unstructured, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Client, r.User = client, cmp.Or(r.User, client)
	if r.Sent.IsZero() {
		r.Sent = w.now()
	}
	if r.Verb == "list" {
		w.note(&r, 200, nil, nil)
		return nil, nil
	}
	return w.do(&r)
}

// Create creates an object as an administrator.
func (w *World) Create(resource string, content map[string]any) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	text, err := json.Marshal(content)
	if err == nil {
		err = utiljson.Unmarshal(text, &object.Object) // Whole numbers are int64, whatever they were.
	}
	if err != nil {
		return nil, err
	}
	return w.Do(Admin, Request{Verb: "create", Resource: w.Resource(resource), Namespace: object.GetNamespace(), Object: object})
}

// Edit changes an object as a user. It returns nil if the object does not exist, or if the change is
// refused.
func (w *World) Edit(user, resource, namespace, name, subresource string, edit func(*unstructured.Unstructured)) *unstructured.Unstructured {
	for {
		w.mu.Lock()
		s := w.named(resource)
		object := s.objects[keyOf(namespace, name)]
		w.mu.Unlock()
		if object == nil {
			return nil
		}
		object = object.DeepCopy()
		edit(object)
		out, err := w.Do(user, Request{Verb: "update", Resource: &s.Resource, Namespace: namespace, Name: name, Subresource: subresource, Object: object})
		if !apierrors.IsConflict(err) {
			return out
		}
	}
}

// Remove deletes an object as a user, with the options that it gives.
func (w *World) Remove(user, resource, namespace, name string, options metav1.DeleteOptions) error {
	_, err := w.Do(user, Request{Verb: "delete", Resource: w.Resource(resource), Namespace: namespace, Name: name, Options: &options})
	return err
}

// Resource is one by its plural, with its group behind a dot if it has one.
func (w *World) Resource(name string) *Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &w.named(name).Resource
}

// Admin is the user of [World.Create].
const Admin = "admin"
