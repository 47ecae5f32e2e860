package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// TestWatchPrintsDocuments: -o json prints all rows first, then only those that change.
func TestWatchPrintsDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, objects(t))
		watch := startWatch(t, cluster, "expiring", "jobs", "-n", "ci", "--watch", "-o", "json")
		documents := json.NewDecoder(watch.reader)
		expect := func(want ...string) {
			t.Helper()
			var document list[entryData]
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

// TestWatchWithTwoPolicies: an object that two cleanup policies match has a row for each, which do
// not replace each other.
func TestWatchWithTwoPolicies(t *testing.T) {
	run := func(name string) *world.Entry {
		source := policy.Source{Level: policy.Level(policy.TriggerCleanup), Name: name}
		return &world.Entry{UID: "a", Name: "a", Trigger: policy.TriggerCleanup, Source: source, Expiry: noon.Add(time.Hour)}
	}
	report := &expiringReport{now: noon, entries: []*world.Entry{run("one"), run("two")}}
	var text bytes.Buffer
	documentsPrinted := 0
	lines := newLines(view{noHeaders: true}, &text, io.Discard)
	documents := &asDocuments{out: io.Discard, noteLines: noteLines{out: io.Discard}, shown: map[string]entryData{}, printFunc: func(printed, io.Writer) error { documentsPrinted++; return nil }}
	for range 3 {
		if err := errors.Join(lines.show(report), documents.show(report)); err != nil {
			t.Fatal(err)
		}
	}
	if rows := strings.Count(text.String(), "\n"); rows != 2 || strings.Contains(text.String(), eventChanged) || documentsPrinted != 1 {
		t.Errorf("%d documents and %d rows:\n%s", documentsPrinted, rows, text.String())
	}
}
