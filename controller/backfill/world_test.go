package backfill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

var configMaps = discovery.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps"}

// world is a cluster with objects of one kind. It records all writes.
type world struct {
	*testing.T
	objects  []*unstructured.Unstructured
	policies []*expression.Policy
	lacks    bool
	timeErr  error
	options  Options
	live     *world // what live reads find, if that differs
	refuse   error  // the answer to each patch
	metadata *metadatafake.FakeMetadataClient
	whole    *dynamicfake.FakeDynamicClient
	versions map[string]string // resourceVersions, where they are not the first one
	moves    int               // how many patches find that the object has changed
	move     func(object *unstructured.Unstructured)

	definitions []expression.Definition

	asked   int      // how often the policies were read
	patches []string // name=label by source
	at      []time.Time
	tries   []time.Time // of all patches, refused ones included
	reads   []string    // of whole objects
	log     strings.Builder
}

// Snapshot implements [platform.Source].
func (w *world) Snapshot(context.Context) (*platform.Snapshot, error) {
	w.asked++
	return platform.SnapshotOf(nil, w.definitions).WithPolicies(w.policies), nil
}

// Namespace implements [platform.Source].
func (w *world) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	switch name {
	case "gone":
		return nil, nil
	case "dry":
		return resolution.ParseNamespace(name, map[string]string{wellknown.AnnotationMode: "dry-run"}, nil), nil
	default:
		return resolution.ParseNamespace(name, nil, map[string]string{"name": name}), nil
	}
}

// Runtime implements [platform.Source].
func (w *world) Runtime(context.Context, *expression.Reference) (map[string]any, error) {
	return nil, nil
}

// PodCounter implements [platform.Source].
func (*world) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, platform.ErrUnknown
}

// policy adds a policy whose default is an hour old.
func (w *world) policy(name, spec string) {
	w.Helper()
	object := &v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &object.Spec); err != nil {
		w.Fatal(err)
	}
	compiled, errs := expression.NewCompiler(10).Policy(object)
	if len(errs) > 0 {
		w.Fatal(errs)
	}
	compiled.Since = time.Now().Add(-time.Hour)
	w.policies = append(w.policies, compiled)
}

// add adds an object of that age. The metadata is YAML.
func (w *world) add(namespace, name string, age time.Duration, metadata string) {
	w.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("{"+metadata+"}"), &object); err != nil {
		w.Fatal(err)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"metadata": object, "data": map[string]any{"tier": name}}}
	out.SetGroupVersionKind(configMaps.GroupVersionKind)
	out.SetNamespace(namespace)
	out.SetName(name)
	out.SetUID(types.UID("uid-" + name))
	out.SetResourceVersion("7")
	out.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-age)))
	w.objects = append(w.objects, out)
}

// begin starts a Labels over the world and stops it with the test.
func (w *world) begin() *Labels {
	w.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		w.Fatal(err)
	}
	var partial, whole []runtime.Object
	for _, object := range w.objects {
		partial, whole = append(partial, w.metadataOf(object)), append(whole, object)
	}
	w.metadata = metadatafake.NewSimpleMetadataClient(scheme, partial...)
	w.metadata.PrependReactor("patch", "*", w.patched)
	w.whole = dynamicfake.NewSimpleDynamicClient(scheme, whole...)
	w.whole.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.GetAction).GetName()
		w.reads = append(w.reads, name)
		return strings.HasPrefix(name, "broken"), nil, apierrors.NewInternalError(errors.New("cannot decrypt " + name))
	})
	o := w.options
	o.Metadata, o.Whole, o.Cached, o.Live, o.Clock, o.Registerer = w.metadata, w.whole, w, w, clock.RealClock{}, prometheus.NewRegistry()
	if w.live != nil {
		o.Live = w.live
	}
	o.Log = funcr.New(func(_, text string) { w.log.WriteString(text + "\n") }, funcr.Options{})
	o.ServerTime = func(context.Context) (time.Time, error) { return time.Now(), w.timeErr }
	if o.Places == nil {
		o.Places = func() ([]discovery.Place, bool) {
			return []discovery.Place{{Kind: configMaps, Namespaces: []string{metav1.NamespaceAll}}}, true
		}
	}
	o.Lacks = func(_ context.Context, _ string, needs []permission.Need) ([]permission.Need, error) {
		if w.lacks {
			return needs, nil
		}
		return nil, nil
	}
	labels := New(o)
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() { _ = labels.Run(ctx); close(done) }()
	w.Cleanup(func() { cancel(); <-done })
	return labels
}

func (w *world) metadataOf(object *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	w.Helper()
	out := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out); err != nil {
		w.Fatal(err)
	}
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	return out
}

// changed makes the change that move makes to an object, or deletes it if move is nil.
func (w *world) changed(name string) {
	w.Helper()
	i := slices.IndexFunc(w.objects, func(object *unstructured.Unstructured) bool { return object.GetName() == name })
	object := w.objects[i].DeepCopy()
	resource, namespace := configMaps.VersionResource(), object.GetNamespace()
	if w.move == nil {
		if err := errors.Join(w.metadata.Tracker().Delete(resource, namespace, name), w.whole.Tracker().Delete(resource, namespace, name)); err != nil {
			w.Error(err)
		}
		return
	}
	w.move(object)
	if w.versions == nil {
		w.versions = map[string]string{}
	}
	w.versions[name] = object.GetResourceVersion() + "0"
	object.SetResourceVersion(w.versions[name])
	w.objects[i] = object
	if err := errors.Join(w.metadata.Tracker().Update(resource, w.metadataOf(object), namespace), w.whole.Tracker().Update(resource, object, namespace)); err != nil {
		w.Error(err)
	}
}

// patched checks that a patch names the state that was judged, and records what it writes.
func (w *world) patched(action clienttesting.Action) (bool, runtime.Object, error) {
	patch := action.(clienttesting.PatchAction)
	var sent metav1.PartialObjectMetadata
	if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
		return true, nil, err
	}
	if string(sent.UID) != "uid-"+patch.GetName() || sent.ResourceVersion != cmp.Or(w.versions[patch.GetName()], "7") || patch.GetPatchType() != types.MergePatchType {
		w.Errorf("patch %s has no precondition: %s", patch.GetName(), patch.GetPatch())
	}
	w.tries = append(w.tries, time.Now())
	if w.refuse != nil {
		return true, nil, w.refuse
	}
	if w.moves > 0 {
		w.moves--
		w.changed(patch.GetName())
		return true, nil, apierrors.NewConflict(schema.GroupResource{}, patch.GetName(), nil)
	}
	w.patches = append(w.patches, fmt.Sprintf("%s=%s by %s", patch.GetName(), sent.Labels[wellknown.LabelTTL], sent.Annotations[wellknown.AnnotationLabelSource]))
	w.at = append(w.at, time.Now())
	return false, nil, nil
}

// untilTheNextRound waits for as long as a round without changes takes to come.
func (w *world) untilTheNextRound() { time.Sleep(every) }

// expect waits for a minute and compares the patches since the last call.
func (w *world) expect(want ...string) {
	w.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if !slices.Equal(w.patches, want) {
		w.Errorf("patched %q, want %q\n%s", w.patches, want, w.log.String())
	}
	w.patches = nil
}

const (
	namesConfigMaps = "match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {value: 30d}}"
	day             = 24 * time.Hour
)

func run(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&world{T: t}) })
}
