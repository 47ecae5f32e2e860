package main

import (
	"encoding/json"
	"io"
	"slices"
	"testing"
	"testing/synctest"

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
			must(t, documents.Decode(&document))
			var have []string
			for _, item := range document.Items {
				have = append(have, item.Event+" "+item.Object.Name+" "+item.TTL)
			}
			if document.Kind != "ExpiryList" || !slices.Equal(have, want) {
				t.Errorf("%s: have %q, want %q", document.Kind, have, want)
			}
		}
		expect("NEW active 2h", "NEW build 1d")
		cluster.changeContext(t, jobsResource, "ci", "build", field("spec/ttlSecondsAfterFinished", int64(3600)))
		expect("CHANGED build 1h")
		must(t, cluster.objects.Tracker().Delete(jobsResource, "ci", "build"))
		expect("GONE build 1h")
		watch.end()
		if rest, _ := io.ReadAll(documents.Buffered()); len(rest) > 1 {
			t.Errorf("printed although nothing changed: %s", rest)
		}
	})
}
