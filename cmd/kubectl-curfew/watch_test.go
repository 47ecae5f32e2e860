package main

import (
	"encoding/json"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/expiring"
)

// TestWatchPrintsDocuments: -o json prints all rows first, then only changed ones.
func TestWatchPrintsDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, objects(t))
		watch := startWatch(t, cluster, "expiring", "jobs", "-n", "ci", "--watch", "-o", "json")
		documents := json.NewDecoder(watch.reader)
		expect := func(want ...string) {
			t.Helper()
			var document console.List[expiring.Item]
			if err := documents.Decode(&document); err != nil {
				t.Fatal(err)
			}
			var have []string
			for _, item := range document.Items {
				have = append(have, item.Event+" "+item.Object.Name+" "+item.TTL)
			}
			if document.Kind != "ExpiryList" || !slices.Equal(have, want) {
				t.Errorf("%s: have %q, want %q", document.Kind, have, want)
			}
		}
		expect("NEW active 2h", "NEW build 1d")
		jobs := cluster.objects.Resource(jobsResource).Namespace("ci")
		build, err := jobs.Get(t.Context(), "build", metav1.GetOptions{})
		if err == nil {
			err = unstructured.SetNestedField(build.Object, int64(3600), "spec", "ttlSecondsAfterFinished")
		}
		if err == nil {
			_, err = jobs.Update(t.Context(), build, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		expect("CHANGED build 1h")
		if err := jobs.Delete(t.Context(), "build", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("GONE build 1h")
		watch.end()
		if rest, _ := io.ReadAll(documents.Buffered()); len(rest) > 1 {
			t.Errorf("printed although nothing changed: %s", rest)
		}
	})
}
