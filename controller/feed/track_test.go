package feed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

const (
	hasEnded = `object.?status.?conditions.orValue([]).exists(c, c.type in ["Complete", "Failed"] && c.status == "True")`
	endedAt  = `object.?status.?conditions.orValue([]).filter(c, c.type in ["Complete", "Failed"] && c.status == "True")[?0].?lastTransitionTime`
)

// runProfile is that of a kind that Curfew fails at its deadline, unless it is told otherwise, and
// deletes by its TTL.
func runProfile(t *testing.T, enforcement ...v1alpha1.Enforcement) *expression.Profile {
	t.Helper()
	if enforcement == nil {
		enforcement = []v1alpha1.Enforcement{{By: v1alpha1.EnforcedByCurfew, Stop: []v1alpha1.StopStep{{Action: v1alpha1.StopMarkFailed}}}}
	}
	compiled, errs := expression.NewCompiler(10).Profile(&v1alpha1.KindProfile{ObjectMeta: metav1.ObjectMeta{Name: "runs"}, Spec: v1alpha1.KindProfileSpec{
		Kind: v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Run", Resource: "runs"},
		State: &v1alpha1.StateExpressions{
			Finished: hasEnded, FinishTime: endedAt,
			Outcome: `object.status.conditions.exists(c, c.type == "Complete" && c.status == "True") ? "Succeeded" : "Failed"`,
		},
		Deadline: &v1alpha1.DeadlineRules{Enforcement: enforcement},
	}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return compiled
}

// track is where Runs are: an API server with one resource, which watches, lists, patches and
// deletes as the real one does.
type track struct {
	mu       sync.Mutex
	runs     map[string]*unstructured.Unstructured
	version  int
	watchers map[*watch.RaceFreeFakeWatcher]bool
	opened   int // watches
	lists    int
	reads    int
	marks    []string // accepted, as name@resourceVersion
	refuse   error    // of lists and watches
}

func newTrack() *track {
	return &track{runs: map[string]*unstructured.Unstructured{}, version: 100, watchers: map[*watch.RaceFreeFakeWatcher]bool{}}
}

// run creates one, now.
func (r *track) run(name string, annotations ...string) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Run"}}
	o.SetNamespace("ci")
	o.SetName(name)
	o.SetUID(types.UID("uid-" + name))
	o.SetCreationTimestamp(metav1.Now())
	pairs := map[string]string{}
	for i := 0; i+1 < len(annotations); i += 2 {
		pairs[annotations[i]] = annotations[i+1]
	}
	o.SetAnnotations(pairs)
	r.put(o)
}

func (r *track) put(o *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(o)
}

func (r *track) set(o *unstructured.Unstructured) {
	r.version++
	o = o.DeepCopy()
	o.SetResourceVersion(strconv.Itoa(r.version))
	known := r.runs[o.GetName()] != nil
	r.runs[o.GetName()] = o
	for watcher := range r.watchers {
		if known {
			watcher.Modify(o.DeepCopy())
		} else {
			watcher.Add(o.DeepCopy())
		}
	}
}

// change edits one.
func (r *track) change(name string, edit func(*unstructured.Unstructured)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.runs[name].DeepCopy()
	edit(o)
	r.set(o)
}

func (r *track) annotate(name, key, value string) {
	r.change(name, func(o *unstructured.Unstructured) {
		pairs := o.GetAnnotations()
		if pairs == nil {
			pairs = map[string]string{}
		}
		if pairs[key] = value; value == "" {
			delete(pairs, key)
		}
		o.SetAnnotations(pairs)
	})
}

// condition is what another controller writes: the whole list.
func (r *track) condition(name, kind, reason string) {
	r.change(name, func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": kind, "status": "True", "reason": reason, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}}
	})
}

func (r *track) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(name)
}

func (r *track) drop(name string) {
	o := r.runs[name]
	delete(r.runs, name)
	r.version++
	for watcher := range r.watchers {
		watcher.Delete(o.DeepCopy())
	}
}

func (r *track) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for watcher := range r.watchers {
		watcher.Stop()
	}
	clear(r.watchers)
}

// forbid refuses lists and watches from now on, and ends those that are open, as a permission that
// is revoked does once they time out; nil grants it again.
func (r *track) forbid(err error) {
	r.mu.Lock()
	r.refuse = err
	r.mu.Unlock()
	if err != nil {
		r.cut()
	}
}

func (r *track) list(_ context.Context, namespace string, _ metav1.ListOptions) (runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	r.lists++
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "RunList"}}
	for _, key := range slices.Sorted(maps.Keys(r.runs)) {
		if o := r.runs[key]; namespace == "" || o.GetNamespace() == namespace {
			list.Items = append(list.Items, *o.DeepCopy())
		}
	}
	list.SetResourceVersion(strconv.Itoa(r.version))
	return list, nil
}

func (r *track) watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	r.opened++
	watcher := watch.NewRaceFreeFake()
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		for _, key := range slices.Sorted(maps.Keys(r.runs)) {
			watcher.Add(r.runs[key].DeepCopy())
		}
		end := &unstructured.Unstructured{Object: map[string]any{}}
		end.SetResourceVersion(strconv.Itoa(r.version))
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		watcher.Action(watch.Bookmark, end)
	} else if options.ResourceVersion != strconv.Itoa(r.version) {
		return nil, apierrors.NewResourceExpired("too old")
	}
	r.watchers[watcher] = true
	return watcher, nil
}

func (r *track) get(_ context.Context, _, name string) (runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if o := r.runs[name]; o != nil {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "runs"}, name)
}

// patch applies a JSON Patch to the status.
func (r *track) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	of := action.(clienttesting.PatchAction)
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.runs[of.GetName()]
	if o == nil {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "runs"}, of.GetName())
	}
	before, err := o.MarshalJSON()
	if err != nil {
		return true, nil, err
	}
	patch, err := jsonpatch.DecodePatch(of.GetPatch())
	if err != nil {
		return true, nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Run"}, of.GetName(), nil)
	}
	r.marks = append(r.marks, of.GetName()+"@"+o.GetResourceVersion())
	written := &unstructured.Unstructured{}
	if err := written.UnmarshalJSON(after); err != nil {
		return true, nil, err
	}
	r.set(written)
	return true, &metav1.PartialObjectMetadata{}, nil
}

// Delete implements engine.Deleter with the preconditions of the API server.
func (r *track) Delete(_ context.Context, request deletion.Request) deletion.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.runs[request.Name]
	switch {
	case o == nil:
		return deletion.Response{Code: 404, ObjectMissing: true}
	case o.GetUID() != request.UID || o.GetResourceVersion() != request.ResourceVersion:
		return deletion.Response{Code: 409}
	}
	r.drop(request.Name)
	return deletion.Response{Code: 200}
}

// state lists the objects, as name: conditions.
func (r *track) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := ""
	for _, name := range slices.Sorted(maps.Keys(r.runs)) {
		out += name
		conditions, _, _ := unstructured.NestedSlice(r.runs[name].Object, "status", "conditions")
		for _, each := range conditions {
			condition := each.(map[string]any)
			out += fmt.Sprintf(" %v=%v/%v", condition["type"], condition["status"], condition["reason"])
		}
		out += "; "
	}
	return out
}

// unasked is a dynamic client that is never asked: the tests bring functions of their own.
type unasked struct{ dynamic.Interface }

func (unasked) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return nil
}

// race is an engine over a track, which runs until the test ends, and what feeds need. Call it
// inside a synctest bubble.
type race struct {
	*track
	t       *testing.T
	engine  *engine.Engine
	stop    *stop.Action
	options Options
	metrics *prometheus.Registry
}

func newRace(t *testing.T) *race {
	t.Helper()
	r := &race{track: newTrack(), t: t, metrics: prometheus.NewPedanticRegistry()}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	patches := metadatafake.NewSimpleMetadataClient(scheme)
	patches.PrependReactor("patch", "runs", r.patch)
	var err error
	var slim metadata.Interface = patches
	if r.stop, err = stop.New(stop.Options{Metadata: slim, Clock: clock.RealClock{}, Log: logr.Discard()}); err != nil {
		t.Fatal(err)
	}
	if r.engine, err = engine.New(engine.Options{Triggers: append(triggers(r.track),
		engine.Trigger{Name: string(policy.TriggerDeadline), Action: r.stop, Payload: true}), Clock: clock.RealClock{}}); err != nil {
		t.Fatal(err)
	}
	synced, err := NewSyncedMetric(r.metrics, clock.RealClock{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.options = Options{Engine: r.engine, Cached: &reads{namespaces: none()}, Live: &reads{namespaces: none(), live: true}, Clock: clock.RealClock{}, Log: logr.Discard(), Synced: synced}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = r.engine.Run(ctx); close(done) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// follow runs a feed of the kind, which takes over from another, until stop or the end of the test.
func (r *race) follow(profile *expression.Profile, from ...engine.Kind) (feed *Feed, stop func()) {
	r.t.Helper()
	over(&r.options, func(r *reads) {
		if r.profile == nil {
			r.profile = func() *expression.Profile { return profile }
		}
	})
	kind := Objects(unasked{}, profile, "")
	kind.List, kind.Watch, kind.Get, kind.Patch = r.list, r.watch, r.get, nil
	kind.Triggers = []*Trigger{TTLs(profile)}
	if deadlines := Deadlines(profile); deadlines != nil {
		kind.Triggers = append(kind.Triggers, deadlines)
	}
	feed, err := New(kind, r.options)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, old := range from { // as feedset.Set does
		if !slices.Contains(feed.Handles(), old) {
			r.engine.ForgetKind(old)
		}
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { _ = feed.Run(ctx); close(done) }()
	stop = func() {
		cancel()
		r.cut()
		<-done
	}
	r.t.Cleanup(stop)
	return feed, stop
}

func (r *race) expect(when, want string) {
	r.t.Helper()
	if got := r.state(); got != want {
		r.t.Errorf("%s there is %q, want %q", when, got, want)
	}
}
