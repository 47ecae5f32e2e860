package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/lint"
)

// served are the kinds of the test cluster, by group and version.
var served = map[string][]metav1.APIResource{
	"v1": {
		resource("namespaces", "Namespace", "ns", false), resource("configmaps", "ConfigMap", "cm", true), resource("secrets", "Secret", "", true),
		resource("pods", "Pod", "po", true), resource("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", true),
		{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get"}},
		{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
	},
	"apps/v1":                       {resource("deployments", "Deployment", "deploy", true), resource("replicasets", "ReplicaSet", "rs", true)},
	"batch/v1":                      {resource("jobs", "Job", "", true)},
	"curfew.dev/v1alpha1":           {resource("lifecyclepolicies", "LifecyclePolicy", "lcp", false), resource("kindprofiles", "KindProfile", "", false), resource("clustercleanupreports", "ClusterCleanupReport", "", false), resource("cleanupreports", "CleanupReport", "", true), resource("clustercleanuppolicies", "ClusterCleanupPolicy", "ccup", false), resource("cleanuppolicies", "CleanupPolicy", "cup", true), resource("clustercleanupapprovals", "ClusterCleanupApproval", "", false), resource("cleanupapprovals", "CleanupApproval", "", true), resource("podtallies", "PodTally", "", true), resource("deletionpauses", "DeletionPause", "dpause", false)},
	"discovery.k8s.io/v1":           {resource("endpointslices", "EndpointSlice", "", true)},
	"events.k8s.io/v1":              {resource("events", "Event", "ev", true)},
	"rbac.authorization.k8s.io/v1":  {resource("clusterroles", "ClusterRole", "", false)},
	"jobset.x-k8s.io/v1alpha2":      {resource("jobsets", "JobSet", "", true)},
	"trainer.kubeflow.org/v1alpha1": {resource("trainjobs", "TrainJob", "", true), resource("clustertrainingruntimes", "ClusterTrainingRuntime", "", false)},
	"apiextensions.k8s.io/v1":       {resource("customresourcedefinitions", "CustomResourceDefinition", "crd", false)},
}

// unserved are kinds that are listed as well, though discovery does not know them.
var unserved []schema.GroupVersionKind

func resource(name, kind, short string, namespaced bool) metav1.APIResource {
	out := metav1.APIResource{Name: name, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}}
	if short != "" {
		out.ShortNames = []string{short}
	}
	return out
}

// objects are the objects in testdata/cluster.
func objects(t testing.TB) []runtime.Object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testdata(t), "cluster", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cluster: %v", err)
	}
	var out []runtime.Object
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		documents, errs := lint.Read(lint.Input{Name: file, Data: data}, lint.Limits{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, document := range documents {
			out = append(out, &unstructured.Unstructured{Object: document.Object})
		}
	}
	return out
}

func testdata(t testing.TB) string {
	t.Helper()
	if !filepath.IsAbs(testdataAt) {
		t.Fatal("where testdata is cannot be told")
	}
	return testdataAt
}

// testdataAt is called before a test changes the folder.
var testdataAt, _ = filepath.Abs("testdata")

// fakeCluster is an API server of the tests. Its users may do everything that is not forbidden.
type fakeCluster struct {
	objects   *dynamicfake.FakeDynamicClient
	metadata  *metadatafake.FakeMetadataClient
	discovery *discoveryfake.FakeDiscovery
	// notAllowed are verbs and resources, "delete secrets", that no user may use, the controller
	// included. notMine are the ones that the user may not use.
	notAllowed, notMine map[string]bool
	// warn gets the warnings of the API server, and warnings is what it was made for.
	warn     rest.WarningHandler
	warnings io.Writer
	// deaf: the API server does not call Curfew's webhook.
	deaf bool
	// deafIn are namespaces where it does not, and canaryErr is how it refuses the question.
	deafIn    []string
	canaryErr error
	// account is the cluster as impersonated users see it; nil means the same. actedAs are their names.
	account *fakeCluster
	actedAs []string
	// patched are the patches that were sent, as "RESOURCE NAMESPACE/NAME PATCH", and the objects
	// that were created.
	patched []string
	// away is why the cluster cannot be reached.
	away error
}

func newFakeCluster(t testing.TB, all []runtime.Object) *fakeCluster {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{}
	var lists []*metav1.APIResourceList
	for version, resources := range served {
		groupVersion, err := schema.ParseGroupVersion(version)
		must(t, err)
		lists = append(lists, &metav1.APIResourceList{GroupVersion: version, APIResources: resources})
		for _, apiResource := range resources {
			if !strings.Contains(apiResource.Name, "/") {
				kinds[groupVersion.WithResource(apiResource.Name)] = apiResource.Kind + "List"
			}
		}
	}
	for _, kind := range unserved {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		kinds[plural] = kind.Kind + "List"
	}
	kinds[corev1.SchemeGroupVersion.WithResource("events")] = "EventList"
	c := &fakeCluster{notAllowed: map[string]bool{}, notMine: map[string]bool{}}
	c.objects = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, all...)
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	var slim []runtime.Object
	for _, object := range all {
		u, _ := object.(*unstructured.Unstructured)
		partial := &metav1.PartialObjectMetadata{}
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, partial))
		partial.TypeMeta = metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}
		slim = append(slim, partial)
	}
	c.metadata = metadatafake.NewSimpleMetadataClient(scheme, slim...)
	c.discovery = &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: lists}}
	c.objects.PrependReactor("list", "*", c.selectFields)
	c.objects.PrependReactor("create", "*", c.review)
	c.objects.PrependReactor("create", "jobs", c.canary)
	c.objects.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, _ := action.(clienttesting.PatchAction)
		return patch.GetPatchType() == types.StrategicMergePatchType, nil, nil // A fake knows no fields of Pods.
	})
	for _, fake := range []*clienttesting.Fake{&c.objects.Fake, &c.metadata.Fake} {
		fake.PrependReactor("*", "*", c.authorize)
	}
	return c
}

// mayListNothing forbids the user to list namespaced kinds.
func (c *fakeCluster) mayListNothing() {
	for _, resources := range served {
		for _, apiResource := range resources {
			c.notMine["list "+apiResource.Name] = apiResource.Namespaced
		}
	}
}

// selectFields applies field selectors, which the fake ignores.
func (c *fakeCluster) selectFields(action clienttesting.Action) (bool, runtime.Object, error) {
	list, _ := action.(clienttesting.ListAction)
	selector := list.GetListRestrictions().Fields
	if selector == nil || selector.Empty() {
		return false, nil, nil
	}
	_, all, err := clienttesting.ObjectReaction(c.objects.Tracker())(action)
	if err != nil {
		return true, nil, err
	}
	found, _ := all.(*unstructured.UnstructuredList)
	found.Items = slices.DeleteFunc(found.Items, func(item unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(item.Object, "status", "phase")
		reason, _, _ := unstructured.NestedString(item.Object, "reason")
		return !selector.Matches(fields.Set{"metadata.name": item.GetName(), "status.phase": phase, "reason": reason})
	})
	return true, found, nil
}

// canary answers as the webhook does to the question whether it is called.
func (c *fakeCluster) canary(action clienttesting.Action) (bool, runtime.Object, error) {
	create, _ := action.(clienttesting.CreateActionImpl)
	object, _ := create.GetObject().(*unstructured.Unstructured)
	refused, _, err := c.authorize(action)
	switch {
	case refused:
		return true, nil, err
	case object.GetGenerateName() != "curfew-canary-":
		return false, nil, nil
	case len(create.CreateOptions.DryRun) == 0:
		return true, nil, errors.New("not a dry run")
	case c.canaryErr != nil:
		return true, nil, c.canaryErr
	case !c.deaf && !slices.Contains(c.deafIn, create.GetNamespace()):
		c.warn.HandleWarningHeader(299, "", `curfew: metadata.annotations[curfew.dev/ttl-after-finished]: "unreadable" is not a duration`)
	}
	return true, object, nil
}

// review answers access reviews.
func (c *fakeCluster) review(action clienttesting.Action) (bool, runtime.Object, error) {
	create, _ := action.(clienttesting.CreateAction)
	asked, _ := create.GetObject().(*unstructured.Unstructured)
	resource := action.GetResource().Resource
	if !strings.HasSuffix(resource, "subjectaccessreviews") {
		text, err := asked.MarshalJSON()
		c.patched = append(c.patched, resource+" "+action.GetNamespace()+"/"+asked.GetName()+" "+strings.TrimSpace(string(text)))
		return false, nil, err
	}
	if c.notMine["create "+resource] {
		return true, nil, forbidden("create", resource)
	}
	var review authorizationv1.SubjectAccessReview // The other kind has the same fields.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(asked.Object, &review); err != nil {
		return true, nil, err
	}
	key := review.Spec.ResourceAttributes.Verb + " " + review.Spec.ResourceAttributes.Resource
	allowed := !c.notAllowed[key] && (resource == "subjectaccessreviews" || !c.notMine[key])
	answer := asked.DeepCopy()
	return true, answer, unstructured.SetNestedField(answer.Object, allowed, "status", "allowed")
}

// authorize refuses requests that the user may not send, and records patches.
func (c *fakeCluster) authorize(action clienttesting.Action) (bool, runtime.Object, error) {
	key := action.GetVerb() + " " + action.GetResource().Resource
	if c.notMine[key] || c.notAllowed[key] {
		return true, nil, forbidden(action.GetVerb(), action.GetResource().Resource)
	}
	if patch, ok := action.(clienttesting.PatchAction); ok {
		c.patched = append(c.patched, action.GetResource().Resource+" "+action.GetNamespace()+"/"+patch.GetName()+" "+string(patch.GetPatch()))
	}
	return false, nil, nil
}

func (c *fakeCluster) connect(_ clientcmd.ClientConfig, warnings io.Writer) (world.Clients, error) {
	c.warn, _ = warnings.(rest.WarningHandler)
	c.warnings = warnings
	out := world.Clients{Discovery: c.discovery, Objects: c.objects, Metadata: c.metadata}
	out.As = func(user string) (world.Clients, error) {
		c.actedAs = append(c.actedAs, user)
		if c.account != nil {
			return c.account.connect(nil, nil)
		}
		return out, nil
	}
	return out, c.away
}

// actions are all requests.
func (c *fakeCluster) actions() []clienttesting.Action {
	return append(c.objects.Actions(), c.metadata.Actions()...)
}

func forbidden(verb, resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("you cannot %s it", verb))
}
