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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
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
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, object)
	}
}

func thing(version, kind, namespace, name string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	out.SetNamespace(namespace)
	out.SetName(name)
	return out
}

// fake is an API server that notes each change.
type fake struct {
	objects  *dynamicfake.FakeDynamicClient
	metadata *metadatafake.FakeMetadataClient
	changes  []string
	done     []string
}

func newFake(t *testing.T, all ...*unstructured.Unstructured) *fake {
	t.Helper()
	f := &fake{}
	kinds := map[schema.GroupVersionResource]string{v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies): "AnyList"}
	for _, name := range strings.Fields(strings.Join(resources[:], " ")) {
		kinds[schema.ParseGroupResource(name).WithVersion("v1")] = "AnyList"
	}
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	var objects, slim []runtime.Object
	for n, object := range all {
		if object.GetUID() == "" {
			object.SetUID(types.UID(fmt.Sprint("uid-", n)))
		}
		partial := &metav1.PartialObjectMetadata{}
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, partial))
		objects, slim = append(objects, object), append(slim, partial)
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

func (f *fake) find(t *testing.T) (*installation, error) {
	return find(t.Context(), world.Clients{Objects: f.objects, Metadata: f.metadata}, "curfew-system")
}

func (f *fake) found(t *testing.T) *installation {
	t.Helper()
	out, err := f.find(t)
	must(t, err)
	return out
}

func (f *fake) say(what string) { f.done = append(f.done, what) }

// remove removes what blocks, and returns what is there afterwards.
func (f *fake) remove(t *testing.T) *installation {
	t.Helper()
	out, err := f.found(t).remove(t.Context(), time.Minute, f.say)
	must(t, err)
	return out
}

// TestTheCommandRemovesTheRest: the command that is printed selects all objects of the manifests and
// of each component, except the CRDs and the Namespace. The check of what is left finds all of them.
func TestTheCommandRemovesTheRest(t *testing.T) {
	all := map[string]*unstructured.Unstructured{}
	for _, folder := range []string{"base", "labels", "monitoring"} {
		for _, object := range built(t, manifests+"/"+folder) {
			all[object.GetKind()+"/"+object.GetNamespace()+"/"+object.GetName()] = object
		}
	}
	for _, object := range added(t, manifests+"/components/*/*.yaml", manifests+"/labels/*.yaml") {
		all[object.GetKind()+"/"+object.GetNamespace()+"/"+object.GetName()] = object
	}
	selector := labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "curfew"})
	found := newFake(t, slices.Collect(maps.Values(all))...).found(t)
	if !strings.Contains(found.next, " -l "+selector.String()+" ") || len(all) < 50 {
		t.Fatalf("%d objects; the command is %s", len(all), found.next)
	}
	for name, obj := range all {
		listed := slices.ContainsFunc(found.objects, func(o *object) bool { return o.GetUID() == obj.GetUID() })
		stays := obj.GetKind() == "CustomResourceDefinition" || obj.GetKind() == "Namespace"
		if selected := selector.Matches(labels.Set(obj.GetLabels())); selected == stays || listed == (obj.GetKind() == "Namespace") {
			t.Errorf("%s: selected %t, found %t", name, selected, listed)
		}
	}
}

// TestLabelsSelectNothing: a label that anyone may write makes no object a part of Curfew, nor does
// a name of Curfew's in another namespace.
func TestLabelsSelectNothing(t *testing.T) {
	theirs := []*unstructured.Unstructured{
		thing("rbac.authorization.k8s.io/v1", "RoleBinding", "ci", "curfew-controller"), thing("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "mine"),
		thing("apps/v1", "Deployment", "curfew-system", "mine"), thing("apps/v1", "Deployment", "ci", "curfew-controller"),
		thing("v1", "Service", "curfew-system", "mine"), thing("v1", "Secret", "curfew-system", "curfew-webhook-tls"),
		thing("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "mine"),
		thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets.example.curfew.dev"),
	}
	for _, their := range theirs {
		their.SetLabels(map[string]string{"app.kubernetes.io/part-of": "curfew", "app.kubernetes.io/name": "curfew"})
	}
	hooks := []any{
		map[string]any{"clientConfig": map[string]any{"service": map[string]any{"namespace": "curfew-system", "name": "other"}}},
		map[string]any{"clientConfig": map[string]any{"service": map[string]any{"namespace": "ci", "name": "curfew-webhook"}}},
	}
	_ = unstructured.SetNestedSlice(theirs[6].Object, hooks, "webhooks")
	f := newFake(t, append(small(), theirs...)...)
	left := f.remove(t)
	for _, their := range theirs {
		what, _ := meta.UnsafeGuessKindToResource(their.GroupVersionKind())
		if _, err := f.objects.Resource(what).Namespace(their.GetNamespace()).Get(t.Context(), their.GetName(), metav1.GetOptions{}); err != nil {
			t.Errorf("%s %s/%s: %v", their.GetKind(), their.GetNamespace(), their.GetName(), err)
		}
	}
	if crds := left.names(kinds); len(f.changes) != 5 || !slices.Equal(crds, []string{"customresourcedefinition.apiextensions.k8s.io/podtallies.curfew.dev"}) {
		t.Errorf("changes %q, want 5; CRDs %q", f.changes, crds)
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
			for _, object := range decode(t, text) {
				if object.GetLabels() != nil { // Patches have none.
					out = append(out, object)
				}
			}
		}
	}
	return out
}

// small is an installation with one object of each stage, and a Pod that a PodTally holds.
func small() []*unstructured.Unstructured {
	tally := thing("curfew.dev/v1alpha1", "PodTally", "ci", "builds")
	tally.SetUID("tally")
	_ = unstructured.SetNestedStringSlice(tally.Object, []string{"listed"}, "status", "uncountedTerminatedPods", "failed")
	out := []*unstructured.Unstructured{
		tally, thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "podtallies.curfew.dev"),
		thing("rbac.authorization.k8s.io/v1", "ClusterRole", "", "curfew-controller"),
		thing("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "curfew-controller"), thing("apps/v1", "Deployment", "curfew-system", "curfew-controller"),
		thing("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "curfew"), thing("v1", "ConfigMap", "curfew-system", "curfew-settings"),
	}
	for _, object := range out[1:] {
		object.SetLabels(map[string]string{"app.kubernetes.io/part-of": "curfew", "app.kubernetes.io/name": "curfew"})
	}
	for _, name := range []string{"held", "listed", "free"} {
		pod := thing("v1", "Pod", "ci", name)
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
// finalizer while Pods are released. Of a Pod only Curfew's finalizer changes. The rest stays.
func TestOrder(t *testing.T) {
	f := newFake(t, small()...)
	var plan []string
	if err := f.found(t).check(t.Context(), func(what string) { plan = append(plan, what) }); err != nil || len(f.changes) > 0 {
		t.Fatalf("a check changes %q: %v", f.changes, err)
	}
	left := f.remove(t)
	slices.Sort(f.changes[3:])
	want := []string{
		"delete mutatingwebhookconfigurations curfew", "delete deployments curfew-controller", "delete clusterrolebindings curfew-controller",
		`patch pods held {"metadata":{"$deleteFromPrimitiveList/finalizers":["curfew.dev/tally"],"uid":"held"}}`,
		`patch pods listed {"metadata":{"$deleteFromPrimitiveList/finalizers":["curfew.dev/tally"],"annotations":{"curfew.dev/counted-by":"tally"},"uid":"listed"}}`,
	}
	if !slices.Equal(f.changes, want) {
		t.Errorf("it does\n%s\nwant\n%s", strings.Join(f.changes, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(f.done, plan) {
		t.Errorf("it says %q, and the plan is %q", f.done, plan)
	}
	if names := left.names(installed, inside, kinds); left.blocks() || left.loses || len(names) != 2 {
		t.Errorf("left: %q, want a ClusterRole and a CRD", names)
	}
}

// TestControllerWritesAgain: what the controller writes while it is being stopped is found: a webhook
// configuration afterwards, and the counts of a PodTally before Pods are released.
func TestControllerWritesAgain(t *testing.T) {
	f := newFake(t, small()...)
	f.objects.PrependReactor("delete", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		late := thing("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "curfew-kinds")
		late.SetUID("late")
		tally := small()[0]
		_ = unstructured.SetNestedStringSlice(tally.Object, []string{"held"}, "status", "uncountedTerminatedPods", "succeeded")
		must(t, f.objects.Tracker().Update(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies), tally, "ci"))
		return false, nil, f.objects.Tracker().Add(late)
	})
	left := f.remove(t)
	if !left.blocks() || !strings.Contains(strings.Join(f.changes, "\n"), `"annotations":{"curfew.dev/counted-by":"tally"},"uid":"held"`) {
		t.Errorf("left to remove %t; it does %q", left.blocks(), f.changes)
	}
	if f.changes = nil; f.remove(t).blocks() || !slices.Equal(f.changes, []string{"delete validatingwebhookconfigurations curfew-kinds"}) {
		t.Errorf("the second time it does %q", f.changes)
	}
}

// TestAnotherOfTheName: an object that was created since under the name of one that was found is left
// alone.
func TestAnotherOfTheName(t *testing.T) {
	f := newFake(t, small()...)
	found := f.found(t)
	for _, object := range found.objects {
		another := object.DeepCopy()
		another.SetUID("another-" + object.GetUID())
		must(t, f.objects.Tracker().Update(object.kind, another, object.GetNamespace()))
	}
	if err := found.delete(t.Context(), f.say, found.objects); err != nil || len(f.changes)+len(f.done) > 0 || len(found.objects) < 5 {
		t.Errorf("%d objects are found, error %v; changes %q and messages %q, want none", len(found.objects), err, f.changes, f.done)
	}
}

// TestNext: the command is that of the tool that installed Curfew. Its marks on a CRD do not count,
// since a CRD stays. Text that is no name of a release does not get into a command.
func TestNext(t *testing.T) {
	const release, space = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
	for want, annotations := range map[string]map[string]string{
		"helm uninstall guard -n platform": {release: "guard", space: "platform"},
		"kubectl delete -f install.yaml":   {release: "guard; reboot", space: "platform"},
		"delete Curfew in Argo CD or Flux": {release: "guard", space: "platform", "argocd.argoproj.io/tracking-id": "guard"},
	} {
		role := thing("rbac.authorization.k8s.io/v1", "ClusterRole", "", "curfew-view")
		role.SetAnnotations(annotations)
		if found := newFake(t, role).found(t); !strings.HasPrefix(found.next, want) || found.blocks() {
			t.Errorf("%v: %s", annotations, found.next)
		}
	}
	for policy, loses := range map[string]bool{"": true, "keep": false} {
		crd := thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "podtallies.curfew.dev")
		crd.SetAnnotations(map[string]string{release: "guard", space: "platform", "helm.sh/resource-policy": policy})
		if found := newFake(t, crd).found(t); found.loses != loses || found.next != "" {
			t.Errorf("resource policy %q: loses %t, command %q", policy, found.loses, found.next)
		}
	}
}

// TestElsewhere: an installation in another namespace is not half removed. A webhook configuration of
// any name that calls Curfew's Service blocks as well.
func TestElsewhere(t *testing.T) {
	hooks := thing("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "curfew")
	service := map[string]any{"namespace": "platform", "name": "curfew-webhook"}
	_ = unstructured.SetNestedSlice(hooks.Object, []any{map[string]any{"clientConfig": map[string]any{"service": service}}}, "webhooks")
	binding := thing("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "curfew-controller")
	_ = unstructured.SetNestedSlice(binding.Object, []any{map[string]any{"kind": "ServiceAccount", "namespace": "platform"}}, "subjects")
	for _, object := range []*unstructured.Unstructured{hooks, binding} {
		if _, err := newFake(t, object).find(t); err == nil || !strings.Contains(err.Error(), "--curfew-namespace platform") {
			t.Errorf("error is %v, want that it names --curfew-namespace platform", err)
		}
	}
	hooks.SetName("copy")
	service["namespace"] = "curfew-system"
	_ = unstructured.SetNestedSlice(hooks.Object, []any{map[string]any{"clientConfig": map[string]any{"service": service}}}, "webhooks")
	if found := newFake(t, hooks).found(t); !found.blocks() {
		t.Error("a copy of the configuration is not found")
	}
}

// TestPodsStop: permissions are deleted when the Pods of Curfew have stopped, or after the timeout.
func TestPodsStop(t *testing.T) {
	running := thing("v1", "Pod", "curfew-system", "curfew-controller-0")
	running.SetLabels(map[string]string{"app.kubernetes.io/part-of": "curfew"})
	f := newFake(t, append(small(), running)...)
	found := f.found(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f.objects.PrependReactor("delete", "clusterrolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
			if took := time.Since(start); took != time.Minute {
				t.Errorf("permissions are deleted after %s, want 1m", took)
			}
			return false, nil, nil
		})
		if _, err := found.remove(context.Background(), time.Minute, f.say); err != nil {
			t.Error(err)
		}
	})
}

var must = builders.Must
