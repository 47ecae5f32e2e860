package main

import (
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy/v1alpha1"
)

// changeContext changes an object that others are judged by, as the API server would: with a new
// generation.
func (c *fakeCluster) changeContext(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, change func(object *unstructured.Unstructured)) {
	t.Helper()
	for _, tracker := range []clienttesting.ObjectTracker{c.objects.Tracker(), c.metadata.Tracker()} {
		have, err := tracker.Get(gvr, namespace, name)
		if err != nil {
			t.Error(err)
			return
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
		if err != nil {
			t.Error(err)
			return
		}
		object := &unstructured.Unstructured{Object: content}
		object.SetGeneration(object.GetGeneration() + 1)
		change(object)
		var changed runtime.Object = object
		if slim, ok := have.(*metav1.PartialObjectMetadata); ok {
			slim = slim.DeepCopy()
			slim.Generation, slim.Annotations, slim.Labels = object.GetGeneration(), object.GetAnnotations(), object.GetLabels()
			changed = slim
		}
		if err := tracker.Update(gvr, changed, namespace); err != nil {
			t.Error(err)
		}
	}
}

var (
	lifecyclePolicies = schema.GroupVersionResource{Group: "curfew.dev", Version: "v1alpha1", Resource: "lifecyclepolicies"}
	runtimes          = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "clustertrainingruntimes"}
)

// field sets one, given as path/to/it.
func field(path string, value any) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, strings.Split(path, "/")...); err != nil {
			panic(err) // A path through something else, in a test.
		}
	}
}

// TestWatchNoticesContext: a changed policy, policy status, runtime or controller setting changes
// the rows.
func TestWatchNoticesContext(t *testing.T) {
	const missed = "NEW job.batch/missed 2026-12-24 14:30:00 CET 1h30m ttl policy/research -"
	for name, test := range map[string]struct {
		kind, first     string
		at              schema.GroupVersionResource
		namespace, name string
		change          func(*unstructured.Unstructured)
		then            string
	}{
		"a policy": {"jobs", missed, lifecyclePolicies, "", "research", field("spec/defaults/ttl/value", "4h"), "CHANGED job.batch/missed 2026-12-24 16:30:00 CET 3h30m ttl policy/research -"},
		"the status of a policy": {
			"jobs", missed, lifecyclePolicies, "", "research", func(object *unstructured.Unstructured) {
				object.SetGeneration(0) // as it was
				field("spec/defaults/ttl/value", "3h")(object)
				field("status/defaults/hash", "x")(object)
				field("status/defaults/sinceTime", "2026-12-01T00:00:00Z")(object)
			}, "CHANGED job.batch/missed 2026-12-24 15:30:00 CET 2h30m ttl policy/research -",
		},
		"a runtime": {
			"trainjobs", "NEW trainjob.trainer.kubeflow.org/tune 2027-01-01 11:00:00 CET 7d22h ttl runtime/torch -", runtimes, "", "torch",
			func(object *unstructured.Unstructured) {
				object.SetAnnotations(map[string]string{"curfew.dev/ttl-after-finished": "9d", "curfew.dev/default-since": "2026-12-01T00:00:00Z/6f5d63ca9523"})
			}, "CHANGED trainjob.trainer.kubeflow.org/tune 2026-12-31 11:00:00 CET 6d22h ttl runtime/torch -",
		},
		"the controller": {"jobs", missed, settings.Resource, "curfew-system", settings.Name, field("data/dry-run", "true"), "CHANGED job.batch/missed 2026-12-24 14:30:00 CET 1h30m ttl policy/research dry-run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newFakeCluster(t, objects(t))
				watch := startWatch(t, cluster, "expiring", test.kind, "-n", "lab", "--watch")
				watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER", test.first)
				cluster.changeContext(t, test.at, test.namespace, test.name, test.change)
				watch.expect(test.then)
				watch.end()
			})
		})
	}
}

// TestWatchLearnsAKind: a new KindProfile brings objects that had no expiry before.
func TestWatchLearnsAKind(t *testing.T) {
	served["example.com/v1"] = []metav1.APIResource{resource("things", "Thing", "", true)}
	defer delete(served, "example.com/v1")
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, append(append(objects(t), thingsOf(t, "v1")), manifests(t, `{apiVersion: example.com/v1, kind: Thing, metadata: {name: spent, namespace: lab, uid: spent,
			creationTimestamp: "2026-12-24T09:00:00Z", annotations: {curfew.dev/ttl-after-finished: 5h}}, data: {usedAt: "2026-12-24T10:00:00Z"}}`)...))
		watch := startWatch(t, cluster, "expiring", "things,jobs", "-n", "lab", "--watch")
		watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER", "NEW job.batch/missed 2026-12-24 14:30:00 CET 1h30m ttl policy/research -")
		profile := manifests(t, `{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: things, uid: profile-things},
			spec: {kind: {group: example.com, version: v1, kind: Thing, resource: things}, state: {finished: has(object.data), finishTime: object.data.usedAt, outcome: '"Succeeded"'}}}`)[0]
		must(t, cluster.objects.Tracker().Create(v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles), profile, ""))
		watch.expect("NEW thing.example.com/spent 2026-12-24 16:00:00 CET 3h ttl object -")
		watch.end()
	})
}
