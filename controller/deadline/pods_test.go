package deadline

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// One list serves all who ask within a second, and lists of namespaces that nobody asks about any more are let go.
func TestListsOfPodsAreShortLived(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	index := newPodIndex(client, clock)
	for i := range 100 {
		for range 3 {
			if _, err := index.below(t.Context(), fmt.Sprintf("ci-%d", i), "run"); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := len(client.Actions()), i+1; got != want {
			t.Fatalf("%d lists for %d namespaces", got, want)
		}
		clock.SetTime(clock.Now().Add(podsFresh / 2))
	}
	if n := len(index.byName); n > 3 {
		t.Errorf("the lists of %d namespaces are kept, want those of the last second", n)
	}
}
