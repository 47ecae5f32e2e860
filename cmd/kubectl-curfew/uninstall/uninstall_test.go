package uninstall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
)

const manifests = "../../../manifests"

// built are the objects of a kustomization.
func built(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	must(t, err)
	text, err := resources.AsYaml()
	must(t, err)
	return decode(t, text)
}

func decode(t *testing.T, text []byte) (out []*unstructured.Unstructured) {
	t.Helper()
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		one := &unstructured.Unstructured{}
		switch err := decoder.Decode(&one.Object); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, one)
	}
}

func object(version, kind, namespace, name string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	out.SetNamespace(namespace)
	out.SetName(name)
	return out
}

// fake is an API server that notes each change.
type fake struct {
	objects  *dynamicfake.FakeDynamicClient
	metadata *metadatafake.FakeMetadataClient
	lists    []*metav1.APIResourceList
	changes  []string
	done     []string
}

func newFake(t *testing.T, all ...*unstructured.Unstructured) *fake {
	t.Helper()
	f := &fake{}
	kinds := map[schema.GroupVersionResource]string{crds: "CustomResourceDefinitionList", namespaces: "NamespaceList"}
	for _, one := range resources {
		kinds[one.GroupVersionResource] = "AnyList"
	}
	for _, kind := range ownKinds {
		kinds[v1alpha1.GroupVersion.WithResource(strings.ToLower(plural(kind)))] = "AnyList"
	}
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	var objects, slim []runtime.Object
	for n, one := range all {
		if one.GetUID() == "" {
			one.SetUID(types.UID(fmt.Sprint("uid-", n)))
		}
		partial := &metav1.PartialObjectMetadata{}
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, partial))
		objects, slim = append(objects, one), append(slim, partial)
	}
	f.objects = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	f.metadata = metadatafake.NewSimpleMetadataClient(scheme, slim...)
	f.objects.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion, _ := action.(clienttesting.DeleteActionImpl)
		if len(deletion.DeleteOptions.DryRun) > 0 {
			return true, nil, nil
		}
		live, err := f.objects.Tracker().Get(action.GetResource(), action.GetNamespace(), deletion.Name)
		if err != nil {
			return true, nil, err
		}
		if only := deletion.DeleteOptions.Preconditions; only != nil && only.UID != nil && *only.UID != live.(*unstructured.Unstructured).GetUID() {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), deletion.Name, errors.New("another UID"))
		}
		f.changes = append(f.changes, "delete "+action.GetResource().Resource+" "+deletion.Name)
		return false, nil, nil
	})
	f.objects.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, _ := action.(clienttesting.PatchActionImpl)
		if len(patch.PatchOptions.DryRun) > 0 {
			return true, nil, nil
		}
		f.changes = append(f.changes, "patch pods "+patch.Name+" "+string(patch.Patch))
		return true, nil, f.metadata.Tracker().Delete(action.GetResource(), action.GetNamespace(), patch.Name)
	})
	return f
}

func (f *fake) find(t *testing.T, keep bool) (*Installation, error) {
	t.Helper()
	clients := world.Clients{Objects: f.objects, Metadata: f.metadata, Discovery: &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: f.lists}}}
	return Find(t.Context(), clients, Options{Namespace: "curfew-system", KeepCRDs: keep, Timeout: time.Minute, Say: func(string, ...any) {}, Done: func(what string) { f.done = append(f.done, what) }})
}

func (f *fake) found(t *testing.T) *Installation {
	t.Helper()
	out, err := f.find(t, false)
	must(t, err)
	return out
}

// TestAllOfTheManifestsIsFound: uninstall removes all objects of the manifests, and of each
// component.
func TestAllOfTheManifestsIsFound(t *testing.T) {
	all := map[string]*unstructured.Unstructured{}
	for _, folder := range []string{"base", "labels", "monitoring"} {
		for _, one := range built(t, manifests+"/"+folder) {
			all[one.GetKind()+"/"+one.GetNamespace()+"/"+one.GetName()] = one
		}
	}
	for _, one := range added(t, manifests+"/components/*/*.yaml", manifests+"/labels/*.yaml") {
		all[one.GetKind()+"/"+one.GetNamespace()+"/"+one.GetName()] = one
	}
	// Objects that Curfew itself creates have no label, and the chart alone has some.
	for _, made := range [][3]string{
		{"v1", "Secret", tlsSecret}, {"v1", "Secret", caSecret}, {"v1", "ConfigMap", "curfew-settings"}, {"coordination.k8s.io/v1", "Lease", lease},
		{"v1", "ServiceAccount", "curfew-metrics"}, {"v1", "Secret", "curfew-metrics-token"}, {"v1", "Service", "curfew-metrics"},
		{"monitoring.coreos.com/v1", "ServiceMonitor", "curfew"},
	} {
		all[made[1]+made[2]] = object(made[0], made[1], "curfew-system", made[2])
	}
	all["metrics"] = object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "curfew-metrics-reader")
	objects := slices.Collect(maps.Values(all))
	found := newFake(t, objects...).found(t)
	for _, one := range objects {
		if !slices.ContainsFunc(found.Objects, func(o *Object) bool { return o.GetUID() == one.GetUID() }) {
			t.Errorf("%s %s is not found", one.GetKind(), one.GetName())
		}
	}
	if len(found.Objects) != len(objects) || len(objects) < 50 {
		t.Errorf("%d objects are found, want %d", len(found.Objects), len(objects))
	}
}

// TestLabelsSelectNothing: a label that anyone may write makes no object a part of Curfew, nor does
// a name of Curfew's in another namespace.
func TestLabelsSelectNothing(t *testing.T) {
	bound := object("rbac.authorization.k8s.io/v1", "RoleBinding", "ci", "curfew-controller")
	_ = unstructured.SetNestedSlice(bound.Object, []any{map[string]any{"kind": "ServiceAccount", "namespace": "curfew-system", "name": "curfew-controller"}}, "subjects")
	theirs := []*unstructured.Unstructured{
		bound,
		object("rbac.authorization.k8s.io/v1", "Role", "ci", "curfew-controller"), object("rbac.authorization.k8s.io/v1", "Role", "ci", "mine"),
		object("rbac.authorization.k8s.io/v1", "RoleBinding", "ci", "mine"), object("rbac.authorization.k8s.io/v1", "Role", "ci", "curfew-view"),
		object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "mine"), object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "mine"),
		object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "", "mine"), object("apps/v1", "Deployment", "curfew-system", "mine"),
		object("networking.k8s.io/v1", "NetworkPolicy", "curfew-system", "mine"), object("networking.k8s.io/v1", "NetworkPolicy", "ci", webhook),
		object("v1", "ResourceQuota", "curfew-system", "mine"), object("monitoring.coreos.com/v1", "ServiceMonitor", "curfew-system", "mine"),
		object("v1", "Service", "curfew-system", "mine"), object("v1", "ServiceAccount", "curfew-system", "mine"),
		object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "mine"),
	}
	for _, one := range theirs {
		one.SetLabels(map[string]string{"app.kubernetes.io/part-of": "curfew"})
	}
	f := newFake(t, append(small(), theirs...)...)
	must(t, f.found(t).Remove(t.Context()))
	for _, one := range theirs {
		what, _ := meta.UnsafeGuessKindToResource(one.GroupVersionKind())
		if _, err := f.objects.Resource(what).Namespace(one.GetNamespace()).Get(t.Context(), one.GetName(), metav1.GetOptions{}); err != nil {
			t.Errorf("%s %s/%s: %v", one.GetKind(), one.GetNamespace(), one.GetName(), err)
		}
	}
	if len(f.changes) < 8 {
		t.Errorf("%d changes, want at least 8: %q", len(f.changes), f.changes)
	}
}

// added are the objects in files that no kustomization lists.
func added(t *testing.T, patterns ...string) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("files of %s: %q, error %v; want at least one", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			for _, one := range decode(t, text) {
				if one.GetLabels() != nil { // Patches have none.
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// small is an installation with one object of each stage, and a Pod that a PodTally holds.
func small() []*unstructured.Unstructured {
	tally := object("curfew.dev/v1alpha1", "PodTally", "ci", "builds")
	tally.SetUID("tally")
	_ = unstructured.SetNestedStringSlice(tally.Object, []string{"listed"}, "status", "uncountedTerminatedPods", "failed")
	out := []*unstructured.Unstructured{
		tally, object("v1", "Namespace", "", "curfew-system"), object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "podtallies.curfew.dev"),
		object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets.example.curfew.dev"),
		object("v1", "Service", "curfew-system", "curfew-webhook"), object("v1", "Service", "ci", "copy"),
		object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "curfew-controller"), object("apps/v1", "Deployment", "curfew-system", "curfew-controller"),
		object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "curfew"),
	}
	for _, one := range out[1:] {
		one.SetLabels(map[string]string{"app.kubernetes.io/part-of": "curfew"})
	}
	for _, name := range []string{"held", "listed", "free"} {
		pod := object("v1", "Pod", "ci", name)
		pod.SetUID(types.UID(name))
		pod.SetFinalizers([]string{"example.com/wait"})
		if name != "free" {
			pod.SetFinalizers([]string{"example.com/wait", "curfew.dev/tally"})
		}
		out = append(out, pod)
	}
	return out
}

// TestOrder: webhooks are deleted before the objects that they would block. No controller can add a
// finalizer while Pods are released. Of a Pod only Curfew's finalizer changes.
func TestOrder(t *testing.T) {
	f := newFake(t, small()...)
	found := f.found(t)
	plan := found.Plan()
	if err := found.Check(t.Context()); err != nil || len(f.changes) > 0 {
		t.Fatalf("a check changes %q: %v", f.changes, err)
	}
	must(t, found.Remove(t.Context()))
	released := f.changes[3:5]
	slices.Sort(released)
	want := []string{
		"delete mutatingwebhookconfigurations curfew", "delete deployments curfew-controller", "delete clusterroles curfew-controller",
		`patch pods held {"metadata":{"$deleteFromPrimitiveList/finalizers":["curfew.dev/tally"],"uid":"held"}}`,
		`patch pods listed {"metadata":{"$deleteFromPrimitiveList/finalizers":["curfew.dev/tally"],"annotations":{"curfew.dev/counted-by":"tally"},"uid":"listed"}}`,
		"delete customresourcedefinitions podtallies.curfew.dev", "delete services curfew-webhook", "delete namespaces curfew-system",
	}
	if !slices.Equal(f.changes, want) {
		t.Errorf("it does\n%s\nwant\n%s", strings.Join(f.changes, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(f.done, plan) {
		t.Errorf("it says %q, and the plan is %q", f.done, plan)
	}
}

// TestControllerWritesAgain: a webhook configuration that the controller writes while it is being
// stopped is deleted, too.
func TestControllerWritesAgain(t *testing.T) {
	f := newFake(t, small()...)
	f.objects.PrependReactor("delete", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		late := object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", controllers)
		late.SetUID("late")
		return false, nil, f.objects.Tracker().Add(late)
	})
	must(t, f.found(t).Remove(t.Context()))
	if !slices.Contains(f.changes, "delete validatingwebhookconfigurations curfew-kinds") {
		t.Errorf("the configuration that was written again is not deleted: %q", f.changes)
	}
}

// TestAnotherOfTheName: an object that was created since under the name of one that was found is left
// alone, at any stage.
func TestAnotherOfTheName(t *testing.T) {
	f := newFake(t, small()...)
	found := f.found(t)
	for _, one := range found.Objects {
		another := one.DeepCopy()
		another.SetUID("another-" + one.GetUID())
		must(t, f.objects.Tracker().Update(one.at, another, one.GetNamespace()))
	}
	must(t, found.stage(workloads)(t.Context()))
	for _, one := range found.Objects {
		if deleted, err := found.delete(t.Context(), one, false); deleted || err != nil {
			t.Errorf("%s: deleted %t, error %v; want that another object of its name is left alone", one, deleted, err)
		}
	}
	if len(f.changes)+len(f.done) > 0 || len(found.Objects) < 5 {
		t.Errorf("%d objects are found; changes %q and messages %q, want none", len(found.Objects), f.changes, f.done)
	}
}

// TestForbidden: uninstall deletes nothing if a deletion is not allowed.
func TestForbidden(t *testing.T) {
	f := newFake(t, small()...)
	f.objects.PrependReactor("delete", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, "podtallies.curfew.dev", errors.New("not you"))
	})
	err := f.found(t).Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "deleting customresourcedefinition.apiextensions.k8s.io/podtallies.curfew.dev") || len(f.changes) > 0 {
		t.Errorf("%v, and it changes %q", err, f.changes)
	}
}

// TestKept: foreign objects keep the Namespace, and --keep-crds the CRDs.
func TestKept(t *testing.T) {
	pushed := object("v1", "ConfigMap", "curfew-system", "pushed") // by a cluster-scoped object that is not Curfew's
	pushed.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ClusterThing", Name: "a", UID: "elsewhere"}})
	f := newFake(t, append(small(), pushed, object("v1", "ConfigMap", "curfew-system", "mine"), object("v1", "ConfigMap", "curfew-system", "kube-root-ca.crt"))...)
	f.lists = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}},
		{Name: "services", Kind: "Service", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}},
	}}}
	found, err := f.find(t, true)
	must(t, err)
	if !slices.Equal(found.Others, []string{"configmaps/mine", "configmaps/pushed"}) || len(found.of(namespace, kinds)) > 0 {
		t.Errorf("others %q, and %v are deleted", found.Others, found.of(namespace, kinds))
	}
}

// TestCreatedAfterTheQuestion: an object that was created since the question keeps the Namespace.
func TestCreatedAfterTheQuestion(t *testing.T) {
	f := newFake(t, small()...)
	f.lists = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}}}}}
	found := f.found(t)
	late := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "curfew-system", Name: "late", UID: "late"}}
	must(t, f.metadata.Tracker().Add(late))
	must(t, found.Remove(t.Context()))
	if slices.Contains(f.changes, "delete namespaces curfew-system") || f.done[0] != "namespace/curfew-system kept: it has objects that are not part of Curfew: configmaps/late" {
		t.Errorf("it does %q, and says %q", f.changes, f.done)
	}
}

// TestElsewhere: an installation in another namespace is not half removed.
func TestElsewhere(t *testing.T) {
	hooks := object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "curfew")
	service := map[string]any{"namespace": "platform", "name": "curfew-webhook"}
	_ = unstructured.SetNestedSlice(hooks.Object, []any{map[string]any{"clientConfig": map[string]any{"service": service}}}, "webhooks")
	if _, err := newFake(t, hooks).find(t, false); err == nil || !strings.Contains(err.Error(), "--curfew-namespace platform") {
		t.Errorf("error is %v, want that it names --curfew-namespace platform", err)
	}
	hooks.SetName("copy") // One of any name that calls Curfew's Service blocks as well.
	service["namespace"] = "curfew-system"
	_ = unstructured.SetNestedSlice(hooks.Object, []any{map[string]any{"clientConfig": map[string]any{"service": service}}}, "webhooks")
	if found := newFake(t, hooks).found(t); len(found.Objects) != 1 {
		t.Errorf("%d objects are found, want 1: %v", len(found.Objects), found.Objects)
	}
}

// TestStuck: a CRD whose objects do not go is named with the finalizers that keep them.
func TestStuck(t *testing.T) {
	all := small()
	all[0].SetFinalizers([]string{"example.com/backup"})
	f := newFake(t, all...)
	f.objects.PrependReactor("delete", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	found := f.found(t)
	synctest.Test(t, func(t *testing.T) {
		err := found.Remove(context.Background())
		const want = "customresourcedefinition.apiextensions.k8s.io/podtallies.curfew.dev is still there after 1m0s: ci/builds has finalizers example.com/backup; " +
			"run the command again when that is solved"
		if err == nil || err.Error() != want {
			t.Errorf("it says %v", err)
		}
	})
}

// TestFinalizersAlone: after everything else was deleted by hand, the Pods are released.
func TestFinalizersAlone(t *testing.T) {
	all := small()
	f := newFake(t, all[len(all)-3:]...)
	found := f.found(t)
	if found.Empty() {
		t.Fatal("nothing is found")
	}
	if err := found.Remove(t.Context()); err != nil || len(f.changes) != 2 {
		t.Errorf("error is %v, want none; %d changes, want 2: %q", err, len(f.changes), f.changes)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
