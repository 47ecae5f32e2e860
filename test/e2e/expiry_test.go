package e2e

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// ways are how a Job can have a TTL such that Curfew is the one that deletes it.
func ways() map[string]func(time.Duration) func(*batchv1.Job) {
	all := map[string]func(time.Duration) func(*batchv1.Job){"annotation": ttl, "field": native}
	if suite.inTreeTTL {
		delete(all, "field")
	}
	return all
}

// A Job and its Pods are deleted at finish + TTL, whichever of the two controllers is faster.
func TestJobVanishesAtItsSecond(t *testing.T) {
	parallel(t)
	for name, way := range map[string]func(time.Duration) func(*batchv1.Job){"annotation": ttl, "field": native} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			created := s.newJob(job("quick", way(3*second)))
			finish := s.awaitJobFinish(created)
			child := s.await("its Pod", func(e harness.Event) bool { return e.Pod() != nil })
			s.notEarly(s.awaitDeletion(created), finish.Add(3*second))
			s.awaitGone(created)
			s.awaitGone(child)
		})
	}
}

// The one DELETE carries the UID and resourceVersion of what was judged, and deletes in the
// background.
func TestDeleteIsSentOnceWithPreconditions(t *testing.T) {
	parallel(t)
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			due := s.finishJob("due", now(), way(2*second))
			s.awaitGone(due)
			sent := suite.proxy.AwaitDeletes(s.ctx, s.name, "due", 1)
			if len(sent) != 1 {
				t.Fatalf("%d DELETEs were sent, want 1: %+v", len(sent), sent)
			}
			options := sent[0].Options
			if got := options.Preconditions; got == nil || got.UID == nil || *got.UID != due.UID ||
				got.ResourceVersion == nil || *got.ResourceVersion != due.ResourceVersion {
				t.Errorf("its preconditions are %v, want UID %s and resourceVersion %s", got, due.UID, due.ResourceVersion)
			}
			if options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationBackground {
				t.Errorf("its propagation is %v, want Background", options.PropagationPolicy)
			}
			s.awaitLog(suite.controller.Log, s.name+"/due", "deleted", string(due.UID))
		})
	}
}

func TestPodVanishesAtItsSecond(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	created := s.newPod(pod("quick", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "3s"))
	finish := s.awaitPodFinish(created)
	s.notEarly(s.awaitDeletion(created), finish.Add(3*second))
	s.awaitGone(created)
}

// A namespace's default deletes what says nothing itself, a Pod too.
func TestDefaultsAreCarriedOut(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "4s", wellknown.AnnotationDefaultPodTTL, "3s")...)
	batch := s.newJob(job("batch", inTemplate(hold, "")))
	single := s.newPod(pod("single", corev1.RestartPolicyNever))
	s.notEarly(s.awaitDeletion(single), s.awaitPodFinish(single).Add(3*second))
	s.notEarly(s.awaitDeletion(batch), s.awaitJobFinish(batch).Add(4*second))
}

// What failed stays to be looked at, what succeeded goes.
func TestTTLByOutcome(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTLSucceeded, "2s", wellknown.AnnotationDefaultTTLFailed, "1h")
	bad := s.newJob(job("bad", inTemplate(fail, "true")))
	finish := s.awaitJobFinish(bad)
	good := s.newJob(job("good"))
	s.notEarly(s.awaitDeletion(good), s.awaitJobFinish(good).Add(2*second))
	s.outlast(finish.Add(2 * second))
	s.stillThere(bad)
}

// Protect beats every trigger, and never means never.
func TestProtectAndNever(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1s")
	protected := s.finishJob("protected", now(), ttl(0), annotated(wellknown.AnnotationProtect, "true"))
	never := s.newJob(job("never", annotated(wellknown.AnnotationTTL, lifetime.NeverText)))
	finish := s.awaitJobFinish(never)
	s.outlast(finish.Add(second))
	s.stillThere(protected)
	s.stillThere(never)
	// Taking the protection away lets it go: it has long been due.
	s.expectSuccess(s.kubectl("annotate", "job", "protected", wellknown.AnnotationProtect+"-"))
	s.awaitGone(protected)
}

// S4: a TTL after finished does not apply to unfinished objects. SuccessCriteriaMet is not the end.
func TestUnfinishedIsKept(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	running := s.newJob(job("running", ttl(0), inTemplate(hold, "true")))
	child := s.await("its Pod", func(e harness.Event) bool { return e.Pod() != nil && e.Pod().Status.Phase == corev1.PodRunning })
	longPod := s.newPod(pod("long", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "0", hold, "true"))
	ending := s.newJob(job("ending", byTest, ttl(0)))
	ending.Status.StartTime = instant(now())
	ending.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue,
		LastTransitionTime: *instant(now()), Reason: batchv1.JobReasonCompletionsReached}}
	_, err := suite.cluster.Client.BatchV1().Jobs(s.name).UpdateStatus(s.ctx, ending, metav1.UpdateOptions{})
	s.ok(err)

	s.outlast(now().Add(second))
	s.stillThere(running)
	s.stillThere(longPod)
	s.stillThere(ending)

	s.patchPod(child.GetName(), `{"metadata":{"annotations":{"`+hold+`":null}}}`)
	s.patchPod("long", `{"metadata":{"annotations":{"`+hold+`":null}}}`)
	s.notEarly(s.awaitDeletion(running), s.awaitJobFinish(running))
	s.awaitGone(longPod)
}

// A finish time in the future, from a node whose clock is ahead, defers. It never hastens, and it
// is not forgotten.
func TestFinishTimeInTheFuture(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	finish := s.ahead(4 * second)
	due := s.finishJob("ahead", finish, ttl(2*second))
	s.notEarly(s.awaitDeletion(due), finish.Add(2*second))
}

// A Pod that does not say when it ended (evicted before it had a condition) goes its TTL after
// Curfew first saw it finished, which is kept on the Pod, so that a restart does not start the time
// again.
func TestFinishTimeThatOnlyCurfewSaw(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	lost := pod("lost", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "3s")
	lost.Spec.SchedulerName = "absent" // no other controller writes its status either
	created := s.newPod(lost)
	before := now()
	s.expectSuccess(s.kubectl("patch", "pod", "lost", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Failed","reason":"Evicted","conditions":null}}`))
	stamped := s.await("a finish time", func(e harness.Event) bool {
		return e.GetUID() == created.GetUID() && e.GetAnnotations()[wellknown.AnnotationFinishedAt] != ""
	})
	when, err := time.Parse(time.RFC3339, stamped.GetAnnotations()[wellknown.AnnotationFinishedAt])
	s.ok(err)
	// Whole seconds, never the one before, and as late as the API server's clock may be.
	if when.Before(before) || when.After(time.Now().Add(2*second)) {
		t.Errorf("it says %s, and was seen between %s and %s", when, before, time.Now())
	}
	s.notEarly(s.awaitDeletion(created), when.Add(3*second))
}

// A foreign finalizer: the deletion timestamp is not before finish + TTL, the DELETE is not sent
// again and again, and once the finalizer goes, the Job and its Pods go.
func TestForeignFinalizer(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	held := s.newJob(job("held", ttl(2*second), finalized))
	finish := s.awaitJobFinish(held)
	child := s.await("its Pod", func(e harness.Event) bool { return e.Pod() != nil })
	terminating := s.awaitDeletion(held)
	s.notEarly(terminating, finish.Add(2*second))
	if when := terminating.GetDeletionTimestamp(); when == nil || when.Time.Before(finish.Add(2*second)) {
		t.Fatalf("deletionTimestamp is %v, finish + TTL %s", when, finish.Add(2*second))
	}
	s.outlast(now())
	s.outlast(now())
	if sent := suite.proxy.Deletes(s.name, "held"); len(sent) != 1 {
		t.Errorf("%d DELETEs were sent, want 1: %+v", len(sent), sent)
	}
	if got := s.getJob("held").Finalizers; len(got) != 1 || got[0] != foreignFinalizer {
		t.Errorf("its finalizers became %v", got)
	}
	s.patchJob("held", `{"metadata":{"finalizers":null}}`)
	s.awaitGone(held)
	s.awaitGone(child)
}

// S6: a default that is younger than an object does not reach it, until backfill says so.
func TestDefaultDoesNotReachWhatIsOlder(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	old := s.newJob(job("old"))
	finish := s.awaitJobFinish(old)
	s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationDefaultTTL+"=2s"))
	s.outlast(now()) // an object created in the second of the default counts as older if admission has not read it yet
	young := s.newJob(job("young"))
	s.notEarly(s.awaitDeletion(young), s.awaitJobFinish(young).Add(2*second))
	s.outlast(finish.Add(2 * second))
	s.stillThere(old)
	s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationBackfill+"=true"))
	s.awaitGone(old)
}

// A TTL that is put on, lowered or taken away after the Job has finished counts as it stands.
func TestTTLOfAFinishedJobMayChange(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	late := s.finishJob("late", now())
	lowered := s.finishJob("lowered", now(), ttl(hour))
	taken := s.finishJob("taken", now(), ttl(8*second))
	s.patchJob("taken", `{"metadata":{"annotations":{"`+wellknown.AnnotationTTL+`":null}}}`) // kubectl may take its time
	s.expectSuccess(s.kubectl("annotate", "job", "late", wellknown.AnnotationTTL+"=1"))
	s.expectSuccess(s.kubectl("annotate", "--overwrite", "job", "lowered", wellknown.AnnotationTTL+"=1"))
	s.awaitGone(late)
	s.awaitGone(lowered)
	s.outlast(now().Add(8 * second))
	s.stillThere(taken)
}

func tracked(pod *corev1.Pod) bool {
	for _, finalizer := range pod.Finalizers {
		if finalizer == wellknown.FinalizerJobTracking {
			return true
		}
	}
	return false
}

// S5 again, with a Job controller that never gets round to it: the Pod waits for it, however long
// it is due.
func TestUncountedPodIsKept(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultPodTTL, "1s")...)
	owner := s.newJob(job("owner", byTest))
	child := pod("child", corev1.RestartPolicyNever)
	child.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, jobKind)}
	child.Finalizers = []string{wellknown.FinalizerJobTracking}
	created := s.newPod(child)
	finish := s.awaitPodFinish(created)
	s.outlast(finish.Add(second))
	s.stillThere(created)
	if !tracked(s.getPod("child")) {
		t.Fatal("the tracking finalizer is gone, want it kept")
	}
	// This Job names another controller, which need not use the finalizer: only the end of the Job
	// shows that it has counted its Pods.
	s.patchPod("child", `{"metadata":{"finalizers":null}}`)
	untracked := pod("untracked", corev1.RestartPolicyNever)
	untracked.OwnerReferences = child.OwnerReferences
	other := s.newPod(untracked)
	s.outlast(s.awaitPodFinish(other).Add(second))
	s.stillThere(created)
	s.stillThere(other)
	_, err := s.complete(owner, time.Now())
	s.ok(err)
	s.awaitGone(created)
	s.awaitGone(other)
}
