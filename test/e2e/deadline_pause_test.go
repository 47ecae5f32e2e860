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
	s.pause("triggers: [deadline], ")
	due := s.run("due", "", "")
	child := pod("child", corev1.RestartPolicyNever, hold, "true")
	child.OwnerReferences = controlledBy(due, "Run")
	child = s.newPod(child)
	deadline := s.giveDeadline(due, now().Sub(due.GetCreationTimestamp().Time)+second)

	s.outlastDeadline(due.GetCreationTimestamp().Add(deadline))
	s.stillThere(child)
	if got := s.getRun("due").conditions(); got != "" {
		t.Errorf("during the pause, it has the conditions %q", got)
	}
	resumed := time.Now()
	s.resume()
	failed := s.awaitRun("due", "condition=Failed")
	if got, want := failed.conditions(), "Failed=True/DeadlineExceeded"; got != want {
		t.Errorf("after the pause, it has the conditions %q, want %q", got, want)
	}
	if when := failed.Status.Conditions[0].LastTransitionTime; when.Time.Before(resumed.Truncate(time.Second)) {
		t.Errorf("it failed at %s, the pause ended at %s", when, resumed)
	}
	s.awaitGone(child)
}

// pause has Curfew delete and stop nothing in the space, until resume or the end of the test.
func (s *space) pause(triggers string) {
	s.Helper()
	s.Cleanup(func() { s.afterwards("delete", v1alpha1.DeletionPauses, s.name, "--ignore-not-found") })
	s.apply(fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: DeletionPause, metadata: {name: %[1]s}, spec: {%[2]snamespaces: [%[1]s], reason: e2e}}", s.name, triggers))
	s.outlast(now().Add(5 * second)) // From then on the pause holds (S11).
}

func (s *space) resume() {
	s.Helper()
	s.expectSuccess(s.kubectl("delete", v1alpha1.DeletionPauses, s.name))
}
