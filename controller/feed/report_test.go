package feed

import (
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/tools/events"

	"curfew.dev/curfew/controller/expiry"
)

// What concerns a single object is told on that object.
func TestReportsOnObjects(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	reports, err := NewReports(recorder, logr.Discard(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	reports.Stuck(expiry.StuckObject{
		Object: expiry.Object{Namespace: "ci", Name: "a", UID: "u"},
		Kind:   expiry.KindOptions{Resource: batchv1.SchemeGroupVersion.WithResource("jobs"), Kind: "Job"},
		Since:  time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("", 3600)),
	})
	reports.Blocked(expiry.BlockedObject{
		Object: expiry.Object{Namespace: "ci", Name: "a", UID: "u", Expiry: time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("", 3600))},
		Kind:   expiry.KindOptions{Resource: batchv1.SchemeGroupVersion.WithResource("jobs"), Kind: "Job"},
		Reason: expiry.ReasonConflict, Message: "it changes",
	})
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	want := []string{
		"Warning Stuck still terminating since 2026-12-24T12:00:00Z: some finalizer is not removed; Curfew does not delete it again",
		"Warning DeleteConflict due since 2026-12-24T12:00:00Z, but it changes; Curfew keeps trying",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
