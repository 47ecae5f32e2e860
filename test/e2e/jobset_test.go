package e2e

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// A JobSet goes at finish + TTL, by its native field or an annotation, by outcome; one that has not
// finished stays.
func TestJobSetVanishesAtItsSecond(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectSuccess(s.create(s.jobSet("field", at("spec.ttlSecondsAfterFinished", 3))))
	s.expectSuccess(s.create(s.jobSet("failed", noted(wellknown.AnnotationTTLFailed, "3s"), noted(wellknown.AnnotationTTLSucceeded, "never"))))
	s.expectSuccess(s.create(s.jobSet("succeeded", noted(wellknown.AnnotationTTLFailed, "3s"), noted(wellknown.AnnotationTTLSucceeded, "never"))))
	s.expectSuccess(s.create(s.jobSet("running", at("spec.ttlSecondsAfterFinished", 3))))
	end := now()
	s.finished("jobset", "succeeded", "Completed", end)
	s.finished("jobset", "failed", "Failed", end)
	s.finished("jobset", "field", "Completed", end)
	s.goneBy("jobset", "field", end.Add(3*second))
	s.goneBy("jobset", "failed", end.Add(3*second))
	s.outlast(now())
	s.there("jobset", "succeeded")
	s.there("jobset", "running")
}

// Curfew fails a JobSet at its deadline, and no other. TestPeersJobSetDeadline has what its own
// controller does then.
func TestJobSetDeadline(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.creates(row{s.jobSet("hangs", noted(wellknown.AnnotationActiveDeadline, "2s")), ""}, row{s.jobSet("far", noted(wellknown.AnnotationActiveDeadline, "1h")), ""})
	s.expectSuccess(s.kubectl("wait", "jobset/hangs", "--for=condition=Failed", "--timeout=10m"))
	if early := time.Until(s.metaOf("jobset", "hangs").CreationTimestamp.Add(2 * second)); early > 0 {
		t.Errorf("it failed %s before its deadline", early)
	}
	const reasons = ".status.conditions[*].reason"
	if got := s.jsonpath("jobset", "hangs", reasons); got != policy.ReasonDeadlineExceeded {
		t.Errorf("its conditions have the reasons %q", got)
	}
	if got := s.jsonpath("jobset", "far", reasons); got != "" {
		t.Errorf("the other has conditions with the reasons %q", got)
	}
}
