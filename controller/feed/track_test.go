package feed

import (
	"fmt"
	"maps"
	"slices"
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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/stop"
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

// track is an API server with Runs, whose status is patched.
type track struct {
	*api[*unstructured.Unstructured]
	marks []string // accepted, as name@resourceVersion
}

func newTrack() *track {
	r := &track{api: newAPI("runs", func() *unstructured.Unstructured { return &unstructured.Unstructured{Object: map[string]any{}} },
		func() client.ObjectList { return &unstructured.UnstructuredList{} })}
	r.forgets = true
	return r
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

func (r *track) annotate(name, key, value string) {
	r.change("ci/"+name, func(o *unstructured.Unstructured) {
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
	r.change("ci/"+name, func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": kind, "status": "True", "reason": reason, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}}
	})
}

// forbid refuses lists and watches from now on, and ends those that are open, as a permission that
// is revoked does once they time out; nil grants it again.
func (r *track) forbid(err error) {
	r.setRefuse(err)
	if err != nil {
		r.cut()
	}
}

// patch applies a JSON Patch to the status.
func (r *track) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	patchAction := action.(clienttesting.PatchAction)
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.objects["ci/"+patchAction.GetName()]
	if o == nil {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "runs"}, patchAction.GetName())
	}
	before, err := o.MarshalJSON()
	if err != nil {
		return true, nil, err
	}
	patch, err := jsonpatch.DecodePatch(patchAction.GetPatch())
	if err != nil {
		return true, nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Run"}, patchAction.GetName(), nil)
	}
	r.marks = append(r.marks, patchAction.GetName()+"@"+o.GetResourceVersion())
	written := &unstructured.Unstructured{}
	if err := written.UnmarshalJSON(after); err != nil {
		return true, nil, err
	}
	r.set(written)
	return true, &metav1.PartialObjectMetadata{}, nil
}

// state lists the objects, as name: conditions.
func (r *track) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := ""
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		out += r.objects[key].GetName()
		conditions, _, _ := unstructured.NestedSlice(r.objects[key].Object, "status", "conditions")
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
	engine  *expire.Engine
	stop    *stop.Action
	options Options
	metrics *prometheus.Registry
}

func newRace(t *testing.T) *race {
	t.Helper()
	r := &race{track: newTrack(), t: t, metrics: prometheus.NewPedanticRegistry()}
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	patches := metadatafake.NewSimpleMetadataClient(scheme)
	patches.PrependReactor("patch", "runs", r.patch)
	var err error
	var slim metadata.Interface = patches
	r.stop = stop.New(stop.Options{Metadata: slim, Clock: clock.RealClock{}, Log: logr.Discard()})
	if r.engine, err = expire.New(expire.Options{Triggers: append(triggers(r.track),
		expire.Trigger{Name: string(policy.TriggerDeadline), Action: r.stop, Payload: true}), Clock: clock.RealClock{}}); err != nil {
		t.Fatal(err)
	}
	synced := NewSyncedMetric(r.metrics, clock.RealClock{}, nil)
	r.options = Options{Engine: r.engine, Cached: &reads{namespaces: none()}, Live: &reads{namespaces: none(), live: true}, Clock: clock.RealClock{}, Log: logr.Discard(), Synced: synced}
	running(t, r.engine.Run, nothingToCut)
	return r
}

// follow runs a feed of the kind, which takes over from another, until stop or the end of the test.
func (r *race) follow(profile *expression.Profile, from ...expire.Kind) (feed *Feed, stop func()) {
	r.t.Helper()
	over(&r.options, func(r *reads) {
		if r.profile == nil {
			r.profile = func() *expression.Profile { return profile }
		}
	})
	kind := Objects(unasked{}, profile)
	kind.List, kind.Watch, kind.Get, kind.Patch = r.list, r.watch, r.get, nil
	kind.Triggers = []*Trigger{TTLs(profile)}
	if deadlines := Deadlines(profile); deadlines != nil {
		kind.Triggers = append(kind.Triggers, deadlines)
	}
	feed, err := New(kind, r.options)
	must(r.t, err)
	for _, old := range from { // as discovery.Set does
		if !slices.Contains(feed.Handles(), old) {
			r.engine.ForgetKind(old)
		}
	}
	return feed, running(r.t, feed.Run, r.cut)
}

func (r *race) expect(when, want string) {
	r.t.Helper()
	if got := r.state(); got != want {
		r.t.Errorf("%s there is %q, want %q", when, got, want)
	}
}
