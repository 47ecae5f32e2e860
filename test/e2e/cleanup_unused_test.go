package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// An object is deleted once it has been unused for two minutes, and not if it was protected in
// between. An Event in its namespace says so before. The policy runs once a minute. If it misses a
// minute on a busy machine, the test begins again.
func TestCleanupMinUnused(t *testing.T) {
	full(t)
	parallel(t)
	for range 5 {
		if labelSpace(t).unusedForTwoMinutes() {
			return
		}
		t.Log("the runs were not in a row")
	}
	t.Error("five times the runs were not in a row")
}

// unusedForTwoMinutes reports whether the runs came one a minute.
func (s *space) unusedForTwoMinutes() bool {
	t := s.T
	for _, name := range []string{"always", "sometimes"} {
		s.newConfigMap(name, "app", "x")
	}
	policy := s.name + "-unused"
	s.Cleanup(func() { s.afterwards("delete", "clustercleanuppolicy", policy, "--ignore-not-found") })
	s.apply(fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: %s}, spec: {schedule: "* * * * *", minUnused: 2m,
		matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, objectSelector: {matchLabels: {app: x}}, %s}}}`, policy, s.name, allConfigMaps))
	var last *v1alpha1.CleanupRun
	run := func() (inARow bool) {
		t.Helper()
		before := last
		status := s.awaitStatus(policy, "the next run", func(status *v1alpha1.CleanupPolicyStatus) bool {
			run := status.LastRun
			return run != nil && (before == nil || run.ID != before.ID) && run.Phase != v1alpha1.RunRunning
		})
		last = status.LastRun
		soon := last.CompletionTime.Sub(last.ScheduledTime.Time) < 30*time.Second // Later, the time begins later or again.
		return soon && (before == nil || last.ScheduledTime.Sub(before.ScheduledTime.Time) == time.Minute)
	}
	// left are the objects after a run; the second result is false if the next one has begun since.
	left := func() (string, bool) {
		out := fmt.Sprint(s.configMapsLeft())
		status := s.awaitStatus(policy, "the status", func(*v1alpha1.CleanupPolicyStatus) bool { return true })
		return out, status.LastRun.ID == last.ID
	}
	if !run() {
		return false
	}
	first := last.ScheduledTime.UTC()
	says := fmt.Sprintf("unused objects: 2, first deletion at about %s, by cleanup/%s", first.Add(2*time.Minute).Format(time.RFC3339), policy)
	s.poll("the Event", func(ctx context.Context) (bool, error) {
		events, err := suite.cluster.Client.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=Unused"})
		if err != nil {
			return false, err
		}
		for i := range events.Items {
			if strings.HasPrefix(events.Items[i].Message, says) {
				return true, nil
			}
		}
		return false, nil
	})
	s.kubectl("-n", s.name, "annotate", "configmap", "sometimes", "curfew.dev/protect=true")
	if now, prepared := left(); !prepared {
		return false
	} else if now != "[always sometimes]" {
		t.Fatalf("the first run left %s", now)
	}
	if !run() {
		return false
	}
	s.kubectl("-n", s.name, "annotate", "configmap", "sometimes", "curfew.dev/protect-")
	if now, prepared := left(); !prepared {
		return false
	} else if now != "[always sometimes]" {
		t.Fatalf("the second run left %s", now)
	}
	for i, want := range []string{"[sometimes]", "[sometimes]", "[]"} {
		if !run() {
			return false
		}
		if now, prepared := left(); !prepared {
			return false
		} else if now != want {
			t.Errorf("run %d left %s, want %s", 3+i, now, want)
		}
	}
	return true
}
