package follow

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

var trainingRuntimes = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainingruntimes"}

const torchKey = "ml/torch"

// torchName is the runtime in the queue of those to be stamped.
const torchName = "trainingruntimes.v1alpha1.trainer.kubeflow.org " + torchKey

func torch(spec map[string]any, annotations map[string]string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "spec": spec}}
	out.SetNamespace("ml")
	out.SetName("torch")
	out.SetUID("torch")
	out.SetAnnotations(annotations)
	return out
}

// stampedRuntimes follow one runtime, as it was last seen.
func stampedRuntimes(t *testing.T, object *unstructured.Unstructured) (*Runtimes, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	all, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	store, err := platform.New(all)
	if err != nil {
		t.Fatal(err)
	}
	api := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), object.DeepCopy())
	r := newRuntimes(Options{Client: api, Clock: clock.RealClock{}, Log: logr.Discard(), Source: func(schema.GroupVersionResource) Source { return nil }}, store)
	r.WriteStamps(func(context.Context) (time.Time, error) { return noon, nil })
	fields := readFields(store.Snapshot().Profiles.For(object.GroupVersionKind()).RuntimeTTLs)
	r.followed[trainingRuntimes] = &followedRuntimes{fields: fields, mirror: NewMirror(newSource(), func(*unstructured.Unstructured) map[string]any { return nil }, clock.RealClock{}, logr.Discard())}
	see(r, object)
	return r, api
}

func see(r *Runtimes, object *unstructured.Unstructured) {
	content := object.DeepCopy().Object
	r.followed[trainingRuntimes].mirror.set(torchKey, &content)
}

func sinceOf(t *testing.T, api dynamic.Interface) string {
	t.Helper()
	object, err := api.Resource(trainingRuntimes).Namespace("ml").Get(t.Context(), "torch", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.GetAnnotations()[wellknown.AnnotationDefaultSince]
}

func TestStampOfARuntimeThatAnotherWebhookUndoes(t *testing.T) {
	before := torch(nil, map[string]string{wellknown.AnnotationTTL: "1d"})
	r, api := stampedRuntimes(t, before)
	api.PrependReactor("patch", "trainingruntimes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, before, nil })
	if err := r.stamp(t.Context(), torchName); !errors.Is(err, errUndone) {
		t.Errorf("error %v, want one, so that it is tried again", err)
	}
}

// A runtime whose TTL was changed past admission is stamped with the API server's time (S6).
func TestStampRuntimesPastAdmission(t *testing.T) {
	ttl := map[string]string{wellknown.AnnotationTTL: "1d"}
	hash := resolution.RuntimeHash(torch(nil, ttl).Object, nil)
	fits := resolution.FormatSince(noon.Add(-time.Hour), hash)
	native := map[string]any{"runPolicy": map[string]any{"ttlSecondsAfterFinished": int64(60)}}
	ofNative := resolution.RuntimeHash(torch(native, nil).Object, []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.runPolicy.ttlSecondsAfterFinished")})
	with := func(since string) map[string]string {
		return map[string]string{wellknown.AnnotationTTL: "1d", wellknown.AnnotationDefaultSince: since}
	}
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"set while the webhook was down": {torch(nil, ttl), resolution.FormatSince(noon, hash)},
		"the field":                      {torch(native, nil), resolution.FormatSince(noon, ofNative)},
		"in step":                        {torch(nil, with(fits)), fits},
		"the hash of another TTL":        {torch(nil, with("2020-01-01T00:00:00Z/0123456789ab")), resolution.FormatSince(noon, hash)},
		"in the future":                  {torch(nil, with(resolution.FormatSince(noon.Add(time.Hour), hash))), resolution.FormatSince(noon, hash)},
		"the TTL taken back":             {torch(nil, map[string]string{wellknown.AnnotationDefaultSince: fits}), ""},
		"it says nothing":                {torch(nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, api := stampedRuntimes(t, test.object)
			if err := r.stamp(t.Context(), torchName); err != nil {
				t.Fatal(err)
			}
			if got := sinceOf(t, api); got != test.want {
				t.Errorf("since %q, want %q", got, test.want)
			}
			patches := len(api.Actions())
			stored, err := api.Resource(trainingRuntimes).Namespace("ml").Get(t.Context(), "torch", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			see(r, stored)
			if err := r.stamp(t.Context(), torchName); err != nil || len(api.Actions()) != patches+1 {
				t.Errorf("a second time wrote again, or failed: %v", err)
			}
		})
	}
}

// While the API server's time is not known, nothing is stamped by a guess. A stamp that fails is
// tried again, one without permission less often.
func TestStampRuntimesAgain(t *testing.T) {
	for name, test := range map[string]struct {
		time, patch error
		after       time.Duration
	}{
		"the time is unknown": {time: errors.New("the API server's time is not known"), after: stampAgain},
		"no answer":           {patch: errors.New("no route"), after: stampAgain},
		"a proxy's 404":       {patch: apierrors.NewGenericServerResponse(http.StatusNotFound, "PATCH", trainingRuntimes.GroupResource(), "torch", "no such page", 0, true), after: stampAgain},
		"forbidden":           {patch: apierrors.NewForbidden(trainingRuntimes.GroupResource(), "torch", nil), after: maxStamp},
	} {
		inBubble(t, name, func(t *testing.T) {
			r, api := stampedRuntimes(t, torch(nil, map[string]string{wellknown.AnnotationTTL: "1d"}))
			var fixed atomic.Bool
			r.WriteStamps(func(context.Context) (time.Time, error) {
				if !fixed.Load() && test.time != nil {
					return time.Time{}, test.time
				}
				return noon, nil
			})
			api.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return !fixed.Load() && test.patch != nil, nil, test.patch
			})
			running(t, r.RunStamps)
			r.stamper.stampLater(trainingRuntimes, torchKey)
			synctest.Wait()
			if got := sinceOf(t, api); got != "" {
				t.Errorf("stamped with %q", got)
			}
			fixed.Store(true)
			time.Sleep(test.after - time.Second)
			if got := sinceOf(t, api); got != "" {
				t.Errorf("stamped too soon, with %q", got)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := sinceOf(t, api); got == "" {
				t.Error("not stamped once it could be")
			}
		})
	}
}

// The patch names the state that was read: no newer TTL gets the stamp of an older one.
func TestRuntimeStampIsForTheStateThatWasRead(t *testing.T) {
	object := torch(nil, map[string]string{wellknown.AnnotationTTL: "1d"})
	object.SetResourceVersion("7")
	r, api := stampedRuntimes(t, object)
	if err := r.stamp(t.Context(), torchName); err != nil {
		t.Fatal(err)
	}
	patch, ok := api.Actions()[0].(clienttesting.PatchAction)
	want := `{"metadata":{"annotations":{"` + wellknown.AnnotationDefaultSince + `":"` + resolution.FormatSince(noon, resolution.RuntimeHash(object.Object, nil)) + `"},"resourceVersion":"7","uid":"torch"}}`
	if !ok || string(patch.GetPatch()) != want {
		t.Errorf("patched with %s, want %s", patch.GetPatch(), want)
	}
}
