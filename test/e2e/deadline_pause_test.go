package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// A deadline that falls due during a pause stops nothing: the object is not failed, and its Pods run
// on until the pause ends.
func TestDeadlineDuringAPause(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.newRuns()
	s.Cleanup(func() { s.afterwards("delete", v1alpha1.DeletionPauses, s.name, "--ignore-not-found") })
	s.expectSuccess(s.kubectlInput(fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: DeletionPause, metadata: {name: %[1]s}, spec: {triggers: [deadline], namespaces: [%[1]s], reason: e2e}}", s.name), "create", "-f", "-"))
	s.outlast(now().Add(second)) // From then on the pause holds.
	due := s.run("due", "", "")
	child := pod("child", corev1.RestartPolicyNever, hold, "true")
	child.OwnerReferences = controlledBy(due, "Run")
	child = s.newPod(child)
	deadline := s.giveDeadline(due, now().Sub(due.GetCreationTimestamp().Time)+second)

	s.outlast(due.GetCreationTimestamp().Add(deadline))
	s.stillThere(child)
	if got := s.getRun("due").conditions(); got != "" {
		t.Errorf("during the pause, it has the conditions %q", got)
	}
	resumed := time.Now()
	s.expectSuccess(s.kubectl("delete", v1alpha1.DeletionPauses, s.name))
	failed := s.awaitRun("due", "condition=Failed")
	if got, want := failed.conditions(), "Failed=True/DeadlineExceeded"; got != want {
		t.Errorf("after the pause, it has the conditions %q, want %q", got, want)
	}
	if at := failed.Status.Conditions[0].LastTransitionTime; at.Time.Before(resumed.Truncate(time.Second)) {
		t.Errorf("it failed at %s, the pause ended at %s", at, resumed)
	}
	s.awaitGone(child)
}
