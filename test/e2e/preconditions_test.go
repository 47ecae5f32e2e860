package e2e

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Which objects honour the preconditions of a DELETE is the API server's affair, and S1 hangs on
// it. Asked here is the real one, for kinds whose deletion has code of its own, with the finalizers
// and propagation policies that take other ways through that code.
//
// One way refuses every resourceVersion, the right one too: where a finalizer of the garbage
// collector's is there and the DELETE takes it away (Background), and the kind has no grace period
// or finalizers of its own. Curfew falls back there to a fresh read and the UID; the day that this
// is mended, this test says so.
func TestPreconditionsAreHonoured(t *testing.T) {
	parallel(t)
	type kind struct {
		resource   schema.GroupVersionResource
		object     string // JSON
		namespaced bool
		// refuses is whether it has that one way.
		refuses bool
	}
	core := schema.GroupVersion{Version: "v1"}
	kinds := map[string]kind{
		"Job":            {schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, `{"apiVersion":"batch/v1","kind":"Job","spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}`, true, true},
		"Pod":            {core.WithResource("pods"), `{"apiVersion":"v1","kind":"Pod","spec":{"schedulerName":"absent","containers":[{"name":"a","image":"a"}]}}`, true, false},
		"ConfigMap":      {core.WithResource("configmaps"), `{"apiVersion":"v1","kind":"ConfigMap"}`, true, true},
		"Service":        {core.WithResource("services"), `{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80}]}}`, true, true},
		"Namespace":      {core.WithResource("namespaces"), `{"apiVersion":"v1","kind":"Namespace"}`, false, false},
		"PersistentVol.": {core.WithResource("persistentvolumes"), `{"apiVersion":"v1","kind":"PersistentVolume","spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}`, false, false},
		"JobSet":         {schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}, `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","spec":{"suspend":true,"replicatedJobs":[]}}`, true, true},
		"Definition": {schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"group":"%s.example.com","scope":"Namespaced","names":{"plural":"honours","kind":"Honour"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, false, false},
	}
	s := newSpace(t)
	created := 0
	for name, k := range kinds {
		for _, finalizer := range []string{"", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, foreignFinalizer} {
			for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
				created++
				id := fmt.Sprintf("%s-honour-%d", s.name, created)
				label := fmt.Sprintf("%s, finalizer %q, %s", name, finalizer, propagation)
				client := s.objects(k.resource).Namespace("")
				if k.namespaced {
					client = s.objects(k.resource).Namespace(s.name)
				}
				text := k.object
				if name == "Definition" {
					text, id = fmt.Sprintf(text, id), fmt.Sprintf("honours.%s.example.com", id)
				}
				object := &unstructured.Unstructured{}
				s.ok(object.UnmarshalJSON([]byte(text)))
				object.SetName(id)
				if finalizer != "" {
					object.SetFinalizers([]string{finalizer})
				}
				first, err := client.Create(s.ctx, object, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("%s: %v", label, err)
					continue
				}
				_, err = client.Patch(s.ctx, id, types.MergePatchType, []byte(`{"metadata":{"annotations":{"changed":"yes"}}}`), metav1.PatchOptions{})
				s.ok(err)
				try := func(uid types.UID, version string) error {
					return client.Delete(s.ctx, id, metav1.DeleteOptions{PropagationPolicy: &propagation,
						Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
				}
				if err := try(first.GetUID(), first.GetResourceVersion()); !apierrors.IsConflict(err) {
					t.Errorf("%s: a DELETE of a state that has changed was answered %v, want a conflict", label, err)
				}
				collectors := finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
				never := k.refuses && collectors && propagation == metav1.DeletePropagationBackground
				for attempt := 0; ; attempt++ {
					now, err := client.Get(s.ctx, id, metav1.GetOptions{})
					s.ok(err)
					if now.GetDeletionTimestamp() != nil {
						t.Errorf("%s: it is being deleted", label)
						break
					}
					uid := now.GetUID()
					if err := try("another", now.GetResourceVersion()); !apierrors.IsConflict(err) {
						t.Errorf("%s: a DELETE of another UID was answered %v, want a conflict", label, err)
					}
					if err = try(uid, now.GetResourceVersion()); err == nil && !never {
						break
					}
					// Its own controllers may write in between; an API that never takes the version that it shows
					// is another matter.
					if !apierrors.IsConflict(err) || attempt == 20 && !never {
						t.Errorf("%s: a DELETE of the state that was read was answered %v", label, err)
						break
					}
					if never && attempt == 3 {
						s.ok(client.Delete(s.ctx, id, metav1.DeleteOptions{PropagationPolicy: &propagation, Preconditions: &metav1.Preconditions{UID: &uid}}))
						break
					}
				}
				_, err = client.Patch(s.ctx, id, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					t.Errorf("%s: cleaning up: %v", label, err)
				}
			}
		}
	}
}

// A Job that can only be deleted by its UID goes all the same, after a fresh look, and is counted.
func TestJobWithTheOrphanFinalizer(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	due := s.finishJob("due", now(), ttl(second), func(j *batchv1.Job) { j.Finalizers = []string{metav1.FinalizerOrphanDependents} })
	s.awaitGone(due)
	sent := suite.proxy.Deletes(s.name, "due")
	for i, each := range sent {
		last, preconditions := i == len(sent)-1, each.Options.Preconditions
		if preconditions == nil || preconditions.UID == nil || *preconditions.UID != due.UID || (preconditions.ResourceVersion == nil) != last {
			t.Errorf("DELETE %d of %d had preconditions %+v, want the UID, and the resourceVersion in all but the last", i+1, len(sent), preconditions)
		}
	}
	// Each change of a policy, and other tests make many, has the object judged again from the start.
	if len(sent) > 20 {
		t.Errorf("%d DELETEs were sent", len(sent))
	}
	s.awaitLog(suite.controller.Log, s.name+"/due", "deleted")
	const series = `curfew_deletions_uid_only_total{group="batch",kind="Job"}`
	if got := metric(t, s.ctx, series); got == "" || got == "0" {
		t.Errorf("%s is %q, want at least 1", series, got)
	}
}
