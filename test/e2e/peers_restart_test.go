package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// Curfew and Trainer are killed before a deadline and a TTL are due. The next Curfew carries out at
// once what fell due meanwhile, and the rest on time, both without Trainer. Trainer has nothing to
// add when it is back, and creates nothing again. The test stops processes that all tests share, so
// it runs before the parallel ones.
func TestPeersBothAreKilled(t *testing.T) {
	s := newPeerSpace(t)
	defer restartController(s.space)()
	s.newRuntime("held", true)
	s.newRuntime("soon", false, noted(wellknown.AnnotationTTL, "8s"))
	s.newRuntime("later", false, noted(wellknown.AnnotationTTL, "25s"))
	missed, job := s.train("missed", "held", deadlined(12*second)), s.train("on-time", "held", deadlined(24*second))
	overdue, later := s.train("overdue", "soon"), s.train("later", "later")
	gone, end := s.awaitComplete(overdue), s.awaitComplete(later)
	s.awaitRunning(missed)
	s.awaitRunning(job)
	s.ok(suite.controller.Kill())
	s.ok(suite.peers.manager.Kill())
	back := false
	defer func() {
		if !back {
			s.ok(suite.peers.startTrainer(s.ctx))
		}
	}()
	curfews := func(deadline time.Duration, of interface{ GetCreationTimestamp() metav1.Time }) time.Time {
		due := of.GetCreationTimestamp().Add(deadline)
		if suite.peers.native() {
			due = due.Add(grace)
		}
		return due
	}
	passed := curfews(12*second, missed)
	if due := gone.Add(8 * second); due.After(passed) {
		passed = due
	}
	s.pass(passed)
	s.untouched(overdue)
	s.untouched(missed)
	if left := s.activePods(missed); len(left) != 2 {
		t.Errorf("without controllers there are %d active Pods, want 2", len(left))
	}

	s.ok(startController(s.ctx))
	s.awaitAllGone(overdue)
	s.awaitStopped(missed)
	s.notEarly(s.awaitAllGone(later), end.Add(25*second))
	due := curfews(24*second, job)
	stopped := s.awaitStopped(job)
	if early := due.Sub(stopped); early > 0 {
		t.Errorf("it was stopped %s before the deadline was Curfew's", early)
	}

	s.ok(suite.peers.startTrainer(s.ctx))
	back = true
	for _, each := range []interface{ GetUID() types.UID }{missed, job} {
		s.await("the TrainJob to have failed", func(e harness.Event) bool { return e.GetUID() == each.GetUID() && exceeded(e) })
	}
	s.outlast(time.Now().Add(5 * second))
	s.awaitStopped(missed)
	s.awaitStopped(job)
}

// While Trainer is away, a JobSet completes in time and its TrainJob's deadline passes. The
// TrainJob succeeded, although its status does not say so yet: Curfew must neither fail it nor
// delete the JobSet. The test stops a process that all tests share, so it runs before the parallel
// ones.
func TestPeersCompletesWhileTrainerIsAway(t *testing.T) {
	s := newPeerSpace(t)
	s.newRuntime("held", true)
	job := s.train("done", "held", deadlined(12*second))
	s.awaitRunning(job)
	s.ok(suite.peers.manager.Kill())
	back := false
	defer func() {
		if !back {
			s.ok(suite.peers.startTrainer(s.ctx))
		}
	}()
	s.expectSuccess(s.kubectl("annotate", "pods", "--all", hold+"-"))
	completed := s.await("the JobSet to complete", func(e harness.Event) bool {
		_, yes := isTrue(e, "Completed")
		return yes && e.Kind == "JobSet" && e.GetName() == job.GetName()
	})
	due := job.GetCreationTimestamp().Add(12 * second)
	if !completed.At.Before(due) {
		t.Fatalf("the JobSet completed at %s, after the deadline at %s: this shows nothing", completed.At, due)
	}
	s.outlast(due.Add(grace + 5*second))
	s.untouched(job)

	s.ok(suite.peers.startTrainer(s.ctx))
	back = true
	s.awaitComplete(job)
	s.untouched(job)
}

// pass waits for an instant. No event shows it: no controller runs that would delete a canary.
func (s peerSpace) pass(until time.Time) {
	s.Helper()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		s.Fatal(s.ctx.Err())
	}
}
