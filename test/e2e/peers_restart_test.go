package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// Curfew and Trainer are killed before a deadline and a TTL are due. The next Curfew carries out at
// once what fell due meanwhile, and the rest on time, both without Trainer. Trainer has nothing to
// add when it is back, and creates nothing again. The test stops processes that all tests share, so
// it runs before the parallel ones.
func TestPeersBothAreKilled(t *testing.T) {
	inTime(t, 10*second, func(early time.Duration) bool { return bothAreKilled(t, early) })
}

// bothAreKilled returns false if something was due before both were killed.
func bothAreKilled(t *testing.T, early time.Duration) bool {
	s := newPeerSpace(t)
	defer restartController(s.space)()
	late := 2 * early
	s.newRuntime("held", true)
	s.newRuntime("soon", false, noted(wellknown.AnnotationTTL, early.String()))
	s.newRuntime("later", false, noted(wellknown.AnnotationTTL, late.String()))
	missed, job := s.train("missed", "held", deadlined(early)), s.train("on-time", "held", deadlined(late))
	overdue, later := s.train("overdue", "soon"), s.train("later", "later")
	gone, end := s.awaitComplete(overdue).Add(early), s.awaitComplete(later).Add(late)
	if !s.runsInTime(missed) || !s.runsInTime(job) {
		return false
	}
	s.ok(suite.controller.Kill())
	startTrainer := s.killTrainer()
	defer startTrainer()
	if now := time.Now(); !now.Before(missed.GetCreationTimestamp().Add(early)) || !now.Before(gone) {
		return false
	}
	curfews := func(deadline time.Duration, object metav1.Object) time.Time {
		due := object.GetCreationTimestamp().Add(deadline)
		if suite.peers.native() {
			due = due.Add(grace)
		}
		return due
	}
	s.pass(curfews(early, missed))
	s.pass(gone)
	s.untouched(overdue)
	s.untouched(missed)
	if left := s.activePods(missed); len(left) != 2 {
		t.Errorf("without controllers there are %d active Pods, want 2", len(left))
	}

	s.ok(startController(s.ctx))
	s.awaitAllGone(overdue)
	s.awaitStopped(missed)
	s.notEarly(s.awaitAllGone(later), end)
	stopped := s.awaitStopped(job)
	if early := curfews(late, job).Sub(stopped); early > 0 {
		t.Errorf("it was stopped %s before the deadline was Curfew's", early)
	}

	startTrainer()
	for _, each := range []metav1.Object{missed, job} {
		s.await("the TrainJob to have failed", func(e harness.Event) bool { return e.GetUID() == each.GetUID() && exceeded(e) })
	}
	s.outlastDeadline(time.Now().Add(5 * second))
	s.awaitStopped(missed)
	s.awaitStopped(job)
	return true
}

// killTrainer kills Trainer, and returns what starts it again, once.
func (s peerSpace) killTrainer() (start func()) {
	s.Helper()
	s.ok(suite.peers.manager.Kill())
	return sync.OnceFunc(func() { s.ok(suite.peers.startTrainer(context.WithoutCancel(s.ctx))) })
}

// While Trainer is away, a JobSet completes in time and its TrainJob's deadline passes. The
// TrainJob succeeded, although its status does not say so yet: Curfew must neither fail it nor
// delete the JobSet. The test stops a process that all tests share, so it runs before the parallel
// ones.
func TestPeersCompletesWhileTrainerIsAway(t *testing.T) {
	inTime(t, 8*second, func(deadline time.Duration) bool { return completesWhileTrainerIsAway(t, deadline) })
}

// completesWhileTrainerIsAway returns false if the deadline passed before the JobSet completed.
func completesWhileTrainerIsAway(t *testing.T, deadline time.Duration) bool {
	s := newPeerSpace(t)
	s.newRuntime("held", true)
	job := s.train("done", "held", deadlined(deadline))
	if !s.runsInTime(job) {
		return false
	}
	startTrainer := s.killTrainer()
	defer startTrainer()
	due := job.GetCreationTimestamp().Add(deadline)
	s.expectSuccess(s.kubectl("annotate", "pods", "--all", hold+"-"))
	completed := false
	s.await("the JobSet to complete, or to be deleted", func(e harness.Event) bool {
		_, completed = isTrue(e, "Completed")
		ofIt := e.Kind == "JobSet" && e.GetName() == job.GetName()
		return ofIt && (completed || e.Type == watch.Deleted || !e.At.Before(due))
	})
	if !completed || !time.Now().Before(due) {
		return false
	}
	s.outlastDeadline(due.Add(grace + 2*second))
	s.untouched(job)

	startTrainer()
	s.awaitComplete(job)
	s.untouched(job)
	return true
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
