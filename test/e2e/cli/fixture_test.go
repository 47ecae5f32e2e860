package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/harness"
)

// patience bounds each wait: only what hangs takes as long.
const patience = harness.Patience

// world is the fixture as it was laid.
type world struct {
	*zone
	objects dynamic.Interface
}

var fixture struct {
	once  sync.Once
	world *world
}

// laid is the fixture, which is laid once. It lasts as long as the control plane.
func laid(t *testing.T) *world {
	t.Helper()
	fixture.once.Do(func() {
		w, err := lay(t)
		if err != nil {
			t.Fatal(err)
		}
		fixture.world = w
		published(t, "dry-run", "false")
	})
	if fixture.world == nil {
		t.Fatal("the fixture could not be laid")
	}
	return fixture.world
}

var (
	labelOf = regexp.MustCompile(`label\((\d[^)]*)\)`)
	timeOf  = regexp.MustCompile(`time\((\d[^)]*)\)`)
	uidOf   = regexp.MustCompile(`uid\((\w+) ([^)]*)\)`)
)

func lay(t *testing.T) (*world, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	objects, err := dynamic.NewForConfig(suite.cluster.Config)
	if err != nil {
		return nil, err
	}
	arrives := time.Now().Add(laying).Truncate(time.Second) // A busy machine may be late.
	zone, err := newZone(suite.cluster.Dir, arrives)
	if err != nil {
		return nil, err
	}
	w := &world{zone: zone, objects: objects}
	text, err := os.ReadFile("testdata/fixture.yaml")
	if err != nil {
		return nil, err
	}
	// It does not run here: it is an object of Curfew's own.
	if _, stderr, err := suite.cluster.Kubectl(ctx, "apply", "-f", "../../../manifests/deploy/controller.yaml"); err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr)
	}
	groups, err := restmapper.GetAPIGroupResources(suite.cluster.Client.Discovery())
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	uids := map[string]string{}
	var statuses []func() error
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		document = labelOf.ReplaceAllStringFunc(document, func(found string) string {
			return w.instant(t, labelOf.FindStringSubmatch(found)[1]).Format("2006-01-02T150405Z")
		})
		document = timeOf.ReplaceAllStringFunc(document, func(found string) string {
			return `"` + w.instant(t, timeOf.FindStringSubmatch(found)[1]).Format(time.RFC3339) + `"`
		})
		document = uidOf.ReplaceAllStringFunc(document, func(found string) string {
			parts := uidOf.FindStringSubmatch(found)
			return uids[parts[1]+" "+parts[2]]
		})
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, document)
		}
		mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
		if err != nil {
			return nil, err
		}
		status := object.Object["status"]
		delete(object.Object, "status")
		created, err := w.create(ctx, mapping.Resource, &object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if status != nil {
			statuses = append(statuses, func() error { return w.setStatus(ctx, mapping.Resource, &object, status) })
		}
		uids[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = string(created.GetUID())
	}
	select {
	case <-time.After(time.Until(arrives)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, set := range statuses {
		if err := set(); err != nil {
			return nil, err
		}
	}
	secrets := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("foo")
	// The policy's status says since when its defaults apply.
	return w, errors.Join(
		secrets.Delete(ctx, "stuck", metav1.DeleteOptions{}),
		w.await(ctx, "secrets", "foo", "stuck", func(object *unstructured.Unstructured) bool {
			return object != nil && object.GetDeletionTimestamp() != nil
		}),
		w.await(ctx, "lifecyclepolicies", "", "research", func(object *unstructured.Unstructured) bool {
			hash, _, _ := unstructured.NestedString(object.Object, "status", "defaults", "hash")
			return hash != ""
		}))
}

func (w *world) create(ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resourceInterface := w.objects.Resource(resource).Namespace(object.GetNamespace())
	status, hasStatus := object.Object["status"]
	delete(object.Object, "status")
	if object.GetNamespace() == "ci" {
		// The API server learns a moment after the namespace's creation that its objects concern Curfew.
		if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			tried, err := resourceInterface.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil && tried.GetAnnotations()["curfew.dev/ttl-source"] != "", err
		}); err != nil {
			return nil, err
		}
	}
	created, err := resourceInterface.Create(ctx, object, metav1.CreateOptions{})
	if err != nil || !hasStatus {
		return created, err
	}
	return created, w.setStatus(ctx, resource, object, status)
}

func (w *world) setStatus(ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured, status any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = w.objects.Resource(resource).Namespace(object.GetNamespace()).
		Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// resources by their names.
var resources = map[string]schema.GroupVersionResource{
	"configmaps":        {Version: "v1", Resource: "configmaps"},
	"secrets":           {Version: "v1", Resource: "secrets"},
	"jobs":              {Group: "batch", Version: "v1", Resource: "jobs"},
	"lifecyclepolicies": {Group: "curfew.dev", Version: "v1alpha1", Resource: "lifecyclepolicies"},
}

// get is an object; nil where there is none.
func (w *world) get(ctx context.Context, resource, namespace, name string) (*unstructured.Unstructured, error) {
	object, err := w.objects.Resource(resources[resource]).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// await returns when an object is as it is wanted; it is nil where it is gone.
func (w *world) await(ctx context.Context, resource, namespace, name string, wanted func(*unstructured.Unstructured) bool) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		object, err := w.get(ctx, resource, namespace, name)
		return err == nil && wanted(object), err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s %s/%s: %w", resource, namespace, name, err)
	}
	return nil
}

// gone returns when an object has been deleted.
func (w *world) gone(t *testing.T, resource, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.await(ctx, resource, namespace, name, func(object *unstructured.Unstructured) bool { return object == nil }); err != nil {
		t.Fatal(err)
	}
}

// configMap makes one in a namespace, with labels.
func (w *world) configMap(t *testing.T, namespace, name string, labels map[string]string) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(labels)
	if _, err := w.objects.Resource(resources["configmaps"]).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// space makes a namespace.
func (w *world) space(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	if err := suite.cluster.NewNamespace(t.Context(), name, annotations); err != nil {
		t.Fatal(err)
	}
}
