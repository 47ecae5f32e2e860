package e2e

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/wellknown"
)

// A finished TrainJob is deleted by the TTL of its runtime, with its JobSet, Jobs and Pods: at once
// with 0, and without one never.
func TestPeersRuntimeTTL(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("zero", false, noted(wellknown.AnnotationTTL, "0"))
	s.newRuntime("soon", false, noted(wellknown.AnnotationTTL, "10s"))
	s.newRuntime("silent", false)
	s.newRuntime("held", true, noted(wellknown.AnnotationTTL, "0"))
	kept := s.train("kept", "silent")
	running := s.train("running", "held")
	atOnce := s.train("at-once", "zero")
	soon := s.train("soon", "soon")
	end := s.awaitComplete(soon)
	s.notEarly(s.awaitAllGone(atOnce), s.awaitComplete(atOnce))
	s.notEarly(s.awaitAllGone(soon), end.Add(10*second))
	s.awaitComplete(kept)
	s.outlast(end.Add(10 * second))
	s.untouched(kept)
	s.untouched(running)
}

// What the runtime says is read at the moment of deletion: an edit applies to what runs, and with
// backfill to what has finished. One that is gone keeps.
func TestPeersRuntimeChanges(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	for name, ttl := range map[string]string{"shortened": "1h", "gone": "1h"} {
		s.newRuntime(name, false, noted(wellknown.AnnotationTTL, ttl))
	}
	shortened, gone := s.train("shortened", "shortened"), s.train("orphan", "gone")
	var lengthened *unstructured.Unstructured
	var due time.Time
	inTime(t, 8*second, func(ttl time.Duration) bool {
		name := fmt.Sprintf("lengthened-%d", int(ttl.Seconds()))
		s.newRuntime(name, false, noted(wellknown.AnnotationTTL, ttl.String()))
		lengthened = s.train(name, name)
		due = s.awaitComplete(lengthened).Add(ttl)
		s.expectSuccess(s.kubectl("annotate", "--overwrite", "trainingruntime", name, wellknown.AnnotationTTL+"=1h"))
		return time.Now().Before(due.Add(-2 * second))
	})
	s.awaitComplete(gone)
	s.expectSuccess(s.kubectl("delete", "trainingruntime", "gone", "--wait=false"))
	s.expectSuccess(s.kubectl("annotate", "--overwrite", "trainingruntime", "shortened", wellknown.AnnotationTTL+"=2s", wellknown.AnnotationBackfill+"=true"))
	s.awaitComplete(shortened)
	s.awaitAllGone(shortened)
	s.outlast(due)
	s.untouched(lengthened)
	s.untouched(gone)
	if s.runtimeExists("gone") {
		// Trainer before v2.3.0 holds on to a runtime that is in use, so that it still has its word.
		s.expectSuccess(s.kubectl("annotate", "--overwrite", "trainingruntime", "gone", wellknown.AnnotationTTL+"=2s", wellknown.AnnotationBackfill+"=true"))
	} else {
		s.awaitLog(suite.controller.Log, s.name+"/orphan", "the runtime gone does not exist")
		s.newRuntime("gone", false, noted(wellknown.AnnotationTTL, "2s"), noted(wellknown.AnnotationBackfill, "true"))
	}
	s.awaitAllGone(gone)
}

func (s peerSpace) runtimeExists(name string) bool {
	s.Helper()
	_, err := suite.peers.objects.Resource(trainJobs.GroupVersion().WithResource("trainingruntimes")).Namespace(s.name).Get(s.ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.ok(err)
	}
	return err == nil
}

// Created suspended and resumed, a TrainJob has its TTL from when it finished.
func TestPeersSuspendedJobThatFinishes(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("torch", false, noted(wellknown.AnnotationTTL, "8s"))
	job := s.train("late", "torch", at("spec.suspend", true))
	s.awaitSuspended(job, metav1.ConditionTrue)
	s.outlast(job.GetCreationTimestamp().Add(8 * second))
	s.untouched(job)
	s.suspend("late", false)
	end := s.awaitComplete(job)
	s.notEarly(s.awaitAllGone(job), end.Add(8*second))
}

// An object that a deadline failed has finished: its TTL applies.
func TestPeersDeadlineThenTTL(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("torch", true, noted(wellknown.AnnotationTTL, "8s"))
	job, due := s.trainUntil("both", "torch", 8*second)
	failed, _ := failure(s.awaitExceeded(job, due))
	s.notEarly(s.awaitAllGone(job), failed.LastTransitionTime.Add(8*second))
}
