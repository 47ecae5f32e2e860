package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/v1alpha1"
)

// An object is deleted in the second run in a row that matches it. A preview says so before. The
// policy runs once a minute. On a busy machine it may miss a minute, or a run begins before the test
// has prepared it, which shows nothing: then the test begins again.
func TestCleanupConsecutiveRuns(t *testing.T) {
	full(t)
	parallel(t)
	for range 5 {
		if labelSpace(t).runInARow() {
			return
		}
		t.Log("the runs were not in a row")
	}
	t.Error("five times the runs were not in a row")
}

// runInARow reports whether the runs came one a minute, each after what the test did for it.
func (s *space) runInARow() bool {
	t := s.T
	for _, name := range []string{"always", "sometimes"} {
		s.newConfigMap(name, "app", "x")
	}
	policy := s.name + "-unused"
	s.Cleanup(func() { s.afterwards("delete", "clustercleanuppolicy", policy, "--ignore-not-found") })
	s.apply(fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: %s}, spec: {schedule: "* * * * *", consecutiveRuns: 2,
		matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, objectSelector: {matchLabels: {app: x}}, %s}}}`, policy, s.name, allConfigMaps))
	var last *v1alpha1.CleanupRun
	run := func() (status *v1alpha1.CleanupPolicyStatus, inARow bool) {
		t.Helper()
		before := last
		status = s.awaitStatus(policy, "the next run", func(status *v1alpha1.CleanupPolicyStatus) bool {
			run := status.LastRun
			return run != nil && (before == nil || run.ID != before.ID) && run.Phase != v1alpha1.RunRunning
		})
		last = status.LastRun
		// A run that begins to read objects later than that leaves no matches.
		soon := last.CompletionTime.Sub(last.ScheduledTime.Time) < 30*time.Second || status.Matches != nil && status.Matches.Run == last.ID
		return status, soon && (before == nil || last.ScheduledTime.Sub(before.ScheduledTime.Time) == time.Minute)
	}
	// prepared reports whether the next run has not begun.
	prepared := func() bool {
		status := s.awaitStatus(policy, "the status", func(*v1alpha1.CleanupPolicyStatus) bool { return true })
		return status.LastRun.ID == last.ID
	}
	preview := func() string {
		return s.expectSuccess(s.curfew("preview", policy, "-o", `jsonpath={range .items[*]}{.object.name} {.result} {.message};{end}`)).stdout
	}

	status, inARow := run()
	if !inARow {
		return false
	}
	if status.Deleted != 0 || status.Matches == nil || fmt.Sprint(s.configMapsLeft()) != "[always sometimes]" {
		t.Fatalf("the first run: %+v, left %v", status.LastRun, s.configMapsLeft())
	}
	s.kubectl("-n", s.name, "label", "configmap", "sometimes", "app-")
	s.newConfigMap("new", "app", "x")
	shown := preview()
	if !prepared() {
		return false
	}
	if got, want := shown, "always WouldDelete ;new Skipped matched in 1 of 2 runs in a row: see consecutiveRuns;"; got != want {
		t.Errorf("after one run the preview shows\n%s\nwant\n%s", got, want)
	}
	if status, inARow = run(); !inARow {
		return false
	}
	if status.Deleted != 1 || fmt.Sprint(s.configMapsLeft()) != "[new sometimes]" {
		t.Errorf("the second run: %+v, left %v", status.LastRun, s.configMapsLeft())
	}
	s.kubectl("-n", s.name, "label", "configmap", "sometimes", "app=x")
	if !prepared() {
		return false
	}
	if status, inARow = run(); !inARow {
		return false
	}
	if status.Deleted != 2 || fmt.Sprint(s.configMapsLeft()) != "[sometimes]" {
		t.Errorf("the third run: %+v, left %v", status.LastRun, s.configMapsLeft())
	}
	if skipped := status.LastRun.Skipped; len(skipped) != 1 || skipped[0].Reason != "ConsecutiveRuns" || skipped[0].Count != 1 {
		t.Errorf("the third run skipped %+v", skipped)
	}
	s.poll("the matches of earlier runs to be deleted", func(ctx context.Context) (bool, error) {
		reports, err := s.objects(v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupReports)).List(ctx, metav1.ListOptions{
			LabelSelector: v1alpha1.LabelCleanupPolicyUID + "=" + s.uidOfCleanup(policy)})
		if err != nil {
			return false, err
		}
		pages := 0
		for i := range reports.Items {
			if matched, _, _ := unstructured.NestedString(reports.Items[i].Object, "matched"); matched != "" {
				pages++
			}
		}
		return pages == 1, nil
	})
	return true
}

func (s *space) uidOfCleanup(name string) string {
	s.Helper()
	object, err := s.readCleanup(s.ctx, name)
	s.ok(err)
	return string(object.GetUID())
}
