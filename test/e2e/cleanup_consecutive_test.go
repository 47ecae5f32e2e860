package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy/v1alpha1"
)

// An object is deleted in the second run in a row that matches it. A preview says so before.
func TestCleanupConsecutiveRuns(t *testing.T) {
	t.Parallel()
	s := labelSpace(t)
	for _, name := range []string{"always", "sometimes"} {
		s.newConfigMap(name, "app", "x")
	}
	policy := s.name + "-unused"
	s.Cleanup(func() { s.afterwards("delete", "clustercleanuppolicy", policy, "--ignore-not-found") })
	s.apply(fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: %s}, spec: {schedule: "* * * * *", consecutiveRuns: 2,
		matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, objectSelector: {matchLabels: {app: x}}, %s}}}`, policy, s.name, allConfigMaps))
	last := ""
	run := func() *v1alpha1.CleanupPolicyStatus {
		t.Helper()
		out := &v1alpha1.CleanupPolicy{}
		s.poll("the next run", func(ctx context.Context) (bool, error) {
			object, err := s.readCleanup(ctx, policy)
			if err != nil {
				return false, err
			}
			*out = v1alpha1.CleanupPolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out); err != nil {
				return false, err
			}
			run := out.Status.LastRun
			return run != nil && run.ID != last && run.Phase != v1alpha1.RunRunning, nil
		})
		last = out.Status.LastRun.ID
		return &out.Status
	}
	preview := func() string {
		return s.passes(s.curfew("preview", policy, "-o", `jsonpath={range .items[*]}{.object.name} {.result} {.message};{end}`)).stdout
	}

	if status := run(); status.Deleted != 0 || status.Matches == nil || fmt.Sprint(s.configMapsLeft()) != "[always sometimes]" {
		t.Fatalf("the first run: %+v, left %v", status.LastRun, s.configMapsLeft())
	}
	s.kubectl("-n", s.name, "label", "configmap", "sometimes", "app-")
	s.newConfigMap("new", "app", "x")
	if got, want := preview(), "always WouldDelete ;new Skipped matched in 1 of 2 runs in a row: see consecutiveRuns;"; got != want {
		t.Errorf("after one run the preview shows\n%s\nwant\n%s", got, want)
	}
	if status := run(); status.Deleted != 1 || fmt.Sprint(s.configMapsLeft()) != "[new sometimes]" {
		t.Errorf("the second run: %+v, left %v", status.LastRun, s.configMapsLeft())
	}
	s.kubectl("-n", s.name, "label", "configmap", "sometimes", "app=x")
	status := run()
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
}

func (s *space) uidOfCleanup(name string) string {
	s.Helper()
	object, err := s.readCleanup(s.ctx, name)
	s.ok(err)
	return string(object.GetUID())
}
