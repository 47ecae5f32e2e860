package follow

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const runtimeText = `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainingRuntime","metadata":{"name":"r%d","namespace":"ml","uid":"u","resourceVersion":"9",` +
	`"annotations":{"curfew.dev/ttl-after-finished":"1d","example.com/other":"x"}},` +
	`"spec":{"template":{"spec":{"tolerations":%s}},"ttlSecondsAfterFinished":60,"activeDeadlineSeconds":{"a":1},"other":{"ttl":30}}}`

// tenants is an API server with runtimes of a size, of which some are listed and one is watched.
type tenants struct {
	*Runtimes
	size, gets atomic.Int64
	store      *platform.Store
	changes    chan struct{}
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	out := &tenants{changes: make(chan struct{}, 100)}
	client := answering(t, func(r *http.Request) string {
		object := func(i int) string { return fmt.Sprintf(runtimeText, i, dense(int(out.size.Load()))) }
		switch {
		case !strings.HasSuffix(r.URL.Path, "/trainingruntimes") && !strings.HasSuffix(r.URL.Path, "/clustertrainingruntimes"):
			out.gets.Add(1)
			return object(0)
		case r.URL.Query().Get("watch") != "":
			return `{"type":"ADDED","object":` + object(9) + "}\n"
		}
		return `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainingRuntimeList","metadata":{"resourceVersion":"9"},"items":[` +
			strings.Join([]string{object(0), object(1), object(2), object(3)}, ",") + `]}`
	})
	builtin, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	if out.store, err = platform.New(builtin); err != nil {
		t.Fatal(err)
	}
	definition := expression.DefinitionOf(decoded(t, `{"spec":{"group":"trainer.kubeflow.org","scope":"Namespaced","names":{"kind":"TrainJob","plural":"trainjobs"},`+
		`"versions":[{"name":"v1alpha1","served":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{}}}}}}]},`+
		`"status":{"conditions":[{"type":"Established","status":"True"}]}}`))
	out.store.SetDefinition("trainjobs.trainer.kubeflow.org", &definition)
	out.Runtimes = newRuntimes(Options{Client: client, Clock: clock.RealClock{}, Log: logr.Discard(),
		Source: func(resource schema.GroupVersionResource) Source { return client.Resource(resource) }}, out.store)
	out.OnChange(func(schema.GroupVersionResource, string) { out.changes <- struct{}{} })
	return out
}

// runs follows the runtimes as the store says until it has seen all.
func (w *tenants) runs(ctx context.Context) {
	w.follow(ctx, w.store.Snapshot())
	for _, runtimes := range w.followed {
		for {
			if _, ok := runtimes.mirror.Get("ml/r9"); ok && runtimes.mirror.Known() == nil {
				break
			}
			<-w.changes
		}
	}
}

func (w *tenants) reference(t *testing.T) *expression.Reference {
	t.Helper()
	object := decoded(t, `{"spec":{"runtimeRef":{"name":"r0","kind":"TrainingRuntime"}}}`)
	out, err := w.store.Snapshot().RuntimeOf(schema.GroupKind{Group: "trainer.kubeflow.org", Kind: "TrainJob"}).Reference("ml", object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Tenants write runtimes, and every replica follows them: a few fields of each are kept (S9).
func TestLargeRuntimes(t *testing.T) {
	w := newTenants(t)
	w.size.Store(400_000)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); w.group.Wait() })
	if mib := retained(func() any { w.runs(ctx); return w }); mib > 4 || len(w.followed) != 2 {
		t.Errorf("5 runtimes of 400 kB of %d kinds take %.0f MiB", len(w.followed), mib)
	}
	policyOf := func(read map[string]any) *resolution.RuntimePolicy { return w.reference(t).Policy(read, nil) }
	// The field with the deadline has a wrong shape, and must stay an error.
	want := policyOf(decoded(t, fmt.Sprintf(runtimeText, 0, "[]")))
	if want.Deadline == nil || want.Deadline.Err == nil || want.TTL.Native == nil {
		t.Fatalf("%+v shows nothing", want)
	}
	cached, err := w.Runtime(t.Context(), w.reference(t))
	if err != nil || !reflect.DeepEqual(policyOf(cached), want) {
		t.Errorf("got %+v, %v; want %+v", policyOf(cached), err, want)
	}
	if live, err := w.LiveRuntime(t.Context(), w.reference(t)); err != nil || !reflect.DeepEqual(live, cached) {
		t.Errorf("got %v, %v; want what the copy has, %v", live, err, cached)
	}
	if gets := w.gets.Load(); gets != 1 {
		t.Errorf("%d live reads, want one", gets)
	}
}

// What the copy of a runtime lacks is read live: all of it for an expression, unless it is too large,
// or the field of another profile.
func TestRuntimesWithMoreFields(t *testing.T) {
	w := newTenants(t)
	w.size.Store(30)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); w.group.Wait() })
	w.runs(ctx)
	whole := w.reference(t)
	whole.Whole = true
	if got, err := w.Runtime(t.Context(), whole); err != nil || !reflect.DeepEqual(got, decoded(t, fmt.Sprintf(runtimeText, 0, dense(30)))) {
		t.Errorf("got %v, %v; want all of it, read live", got, err)
	}
	for _, text := range []string{"spec.other.ttl", "spec.other"} {
		other := w.reference(t)
		other.Fields = append(other.Fields, strings.Split(text, "."))
		got, err := w.Runtime(t.Context(), other)
		if _, ok := other.Fields[len(other.Fields)-1].Get(got); err != nil || !ok {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	if gets := w.gets.Load(); gets != 3 {
		t.Errorf("%d live reads, want 3", gets)
	}
	w.size.Store(3_000_000)
	if _, err := w.LiveRuntime(t.Context(), w.reference(t)); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("error %v, want that the runtime is too large", err)
	}
	w.size.Store(300_000)
	if _, err := w.Runtime(t.Context(), whole); !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "more than 262144 bytes") {
		t.Errorf("error %v, want that the runtime is too large, and what the limit is", err)
	}
}

// A profile that reads another field has all runtimes read again. Until then, no runtime is stamped
// or known by the fields of before.
func TestRuntimesOfAnotherProfile(t *testing.T) {
	w := newTenants(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); w.group.Wait() })
	w.runs(ctx)
	kept := w.followed[trainingRuntimes].mirror
	all, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	changed := all[slices.IndexFunc(all, func(profile *v1alpha1.KindProfile) bool { return profile.Name == "trainjobs.trainer.kubeflow.org" })].DeepCopy()
	changed.Spec.Runtime.Kinds[1].TTL = []v1alpha1.FieldPath{"spec.other.ttl"}
	if errs := w.store.SetProfile(changed); len(errs) > 0 {
		t.Fatal(errs)
	}
	if _, object := w.pendingRuntime("trainingruntimes.v1alpha1.trainer.kubeflow.org ml/r0"); object != nil {
		t.Error("a runtime is stamped without the field that has its TTL now")
	}
	if _, known := w.sets(w.store.Snapshot().RuntimeOf(schema.GroupKind{Group: "trainer.kubeflow.org", Kind: "TrainJob"})); known {
		t.Error("whether a runtime has a TTL is known without the field that has it now")
	}
	unserved := changed.DeepCopy()
	unserved.Name, unserved.Spec.Kind.Kind, unserved.Spec.Kind.Resource = "others", "Other", "others"
	unserved.Spec.Runtime.Kinds[1].TTL = []v1alpha1.FieldPath{"spec.unserved"}
	if errs := w.store.SetProfile(unserved); len(errs) > 0 {
		t.Fatal(errs)
	}
	w.runs(ctx)
	now, reference := w.followed[trainingRuntimes].mirror, w.reference(t)
	reference.Fields = w.store.Snapshot().Profiles.For(reference.Kind).RuntimeTTLs
	if !slices.ContainsFunc(reference.Fields, func(path fieldpath.FieldPath) bool { return path.String() == "spec.unserved" }) {
		t.Fatalf("fields %s, want that of another kind, too: the hash of the TTLs has it", reference.Fields)
	}
	got, err := w.Runtime(t.Context(), reference)
	if ttl := w.reference(t).Policy(got, nil).TTL.Native; now == kept || err != nil || ttl == nil || ttl.TTL.After != 30*time.Second || w.gets.Load() != 0 {
		t.Errorf("%d live reads got %+v, %v; want the TTL of the other field in another copy", w.gets.Load(), ttl, err)
	}
	if w.runs(ctx); w.followed[trainingRuntimes].mirror != now {
		t.Error("the same fields are read again")
	}
}

// Only some fields of a runtime are listed and kept. What is in a field of the wrong shape is not.
func TestFieldsOfRuntimes(t *testing.T) {
	text := fmt.Sprintf(runtimeText, 0, "[{}]")
	want := decoded(t, `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainingRuntime","metadata":{"name":"r0","namespace":"ml","uid":"u","resourceVersion":"9",`+
		`"annotations":{"curfew.dev/ttl-after-finished":"1d"}},"spec":{"activeDeadlineSeconds":{},"other":{"ttl":30},"template":{"spec":{"tolerations":[]}}}}`)
	fields := runtimeFields([]fieldpath.FieldPath{{"spec", "other", "ttl"}, {"spec", "activeDeadlineSeconds"}, {"spec", "other"},
		{"spec", "template", "spec", "tolerations"}, {"spec", "absent"}, {"kind", "below"}})
	if got := fields.pick(decoded(t, text)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	rich := decoded(t, `{"metadata":{"name":"r","namespace":"ml","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z","annotations":{"curfew.dev/ttl-after-failed":"1d",`+
		`"curfew.dev/active-deadline":"1h","curfew.dev/backfill":"true"}}}`)
	reference := newTenants(t).reference(t)
	rich["metadata"].(map[string]any)["annotations"].(map[string]any)[wellknown.AnnotationDefaultSince] = resolution.FormatSince(noon, resolution.RuntimeHash(rich, nil))
	alive := reference.Policy(rich, nil)
	if alive.Since.IsZero() || !alive.Backfill || alive.Deadline == nil {
		t.Fatalf("%+v shows nothing", alive)
	}
	if got := reference.Policy(fields.pick(rich), nil); !reflect.DeepEqual(got, alive) {
		t.Errorf("got %+v, want %+v", got, alive)
	}
	rich["metadata"].(map[string]any)["creationTimestamp"] = noon.Add(time.Hour).Format(time.RFC3339)
	if got := reference.Policy(fields.pick(rich), nil); !got.Since.Equal(noon.Add(time.Hour)) {
		t.Errorf("since %v, want the creation: the stamp is forged", got.Since)
	}
	rich["metadata"].(map[string]any)["deletionTimestamp"] = noon.Format(time.RFC3339)
	if got := reference.Policy(fields.pick(rich), nil); !got.Missing {
		t.Errorf("got %+v, want that it is being deleted", got)
	}
	list := fewFields{answering(t, func(*http.Request) string {
		return `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainingRuntimeList","metadata":{"resourceVersion":"99","continue":"c"},"items":[` + text + `]}`
	}).Resource(trainingRuntimes), fields}
	ctx, _ := watch.Measure(t.Context())
	if got, err := list.List(ctx, metav1.ListOptions{}); err != nil || len(got.Items) != 1 || !reflect.DeepEqual(got.Items[0].Object, want) || got.GetResourceVersion() != "99" {
		t.Errorf("got %v, %v; want one %v", got, err, want)
	}
}
