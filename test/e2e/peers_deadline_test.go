package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// long is how long nothing may come back: a minute with FULL=1.
func long() time.Duration {
	if os.Getenv("FULL") != "" {
		return time.Minute
	}
	return 8 * second
}

// A TrainJob that is active for longer than its deadline fails, and nothing of it comes back; one
// whose deadline is far away runs on.
func TestPeersDeadlineExceeded(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("torch", true)
	far := s.train("far", "torch", deadlined(hour))
	s.awaitRunning(far)
	job, due := s.trainUntil("hangs", "torch", 8*second)
	event := s.awaitExceeded(job, due)
	failed, _ := failure(event)
	stopped := s.awaitStopped(job)
	s.staysStopped(job, stopped, long())
	s.untouched(far)
	if left := s.activePods(far); len(left) != 2 {
		t.Errorf("the other TrainJob has the active Pods %v, want two", left)
	}
	if suite.peers.native() {
		return
	}
	// Here Curfew's is the only word on it, and Trainer hands it on.
	if !strings.Contains(failed.Message, "longer than its deadline of "+due.Sub(job.GetCreationTimestamp().Time).String()) {
		t.Errorf("the message is %q", failed.Message)
	}
	if sets, jobs := s.getJobSets(), s.list(trainJobs); len(sets) != len(jobs) {
		t.Errorf("there are %d JobSets, want that of each of %d TrainJobs: Trainer creates a deleted one again", len(sets), len(jobs))
	}
}

// Created suspended, a deadline does not begin, whether Trainer gets to say so in a condition or
// the spec alone does; resumed, it is there in full.
func TestPeersCreatedSuspended(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("torch", true)
	var mute atomic.Int32
	t.Cleanup(suite.peers.proxy.Handle(func(w http.ResponseWriter, r *http.Request) bool {
		_, namespace, name := harness.Target(r.URL.Path)
		if namespace != s.name || name != "unsaid" || !strings.HasSuffix(r.URL.Path, "/status") {
			return false
		}
		mute.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}))
	suspended := at("spec.suspend", true)
	unsaid := s.train("unsaid", "torch", suspended, deadlined(1*second))
	never := s.train("never", "torch", suspended, deadlined(1*second))
	job := s.train("resumed", "torch", suspended, deadlined(5*second))
	s.awaitSuspended(never, metav1.ConditionTrue)
	s.awaitSuspended(job, metav1.ConditionTrue)
	s.outlastDeadline(job.GetCreationTimestamp().Add(6 * second))
	s.untouched(job)
	s.untouched(unsaid)
	if items := conditions(s.getTrainJob("unsaid")); len(items) > 0 || mute.Load() == 0 {
		t.Errorf("after %d refusals it has the conditions %v: Trainer was to say nothing", mute.Load(), items)
	}
	s.suspend("resumed", false)
	since := s.awaitSuspended(job, metav1.ConditionFalse)
	s.awaitExceeded(job, since.Add(5*second))
	s.awaitStopped(job)
	s.untouched(never)
}

// Suspended on the way and resumed, a TrainJob has its whole deadline again; finished, its TTL does
// not care.
func TestPeersSuspendAndResume(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("torch", true)
	var job *unstructured.Unstructured
	var deadline time.Duration
	inTime(t, 8*second, func(time time.Duration) bool {
		deadline = time
		job = s.train(fmt.Sprintf("paused-%d", int(time.Seconds())), "torch", deadlined(time))
		if !s.runsInTime(job) {
			return false
		}
		s.suspend(job.GetName(), true)
		return s.beforeItsDeadline(job, "to be suspended", func(e harness.Event) bool {
			_, yes := isTrue(e, "Suspended")
			return yes && e.GetUID() == job.GetUID()
		})
	})
	s.outlastDeadline(job.GetCreationTimestamp().Add(deadline + 2*second))
	if conditions := conditions(s.getTrainJob(job.GetName())); len(conditions) != 1 || conditions[0].Type != "Suspended" {
		t.Errorf("suspended, its conditions are %v, want Suspended alone", conditions)
	}
	s.suspend(job.GetName(), false)
	since := s.awaitSuspended(job, metav1.ConditionFalse)
	s.awaitExceeded(job, since.Add(deadline))
	s.awaitStopped(job)
}

// Curfew does not touch objects that another controller manages.
func TestPeersManagedByAnother(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t, wellknown.AnnotationDefaultTTL, "1s", wellknown.AnnotationDefaultDeadline, "1s")
	s.newRuntime("torch", true, noted(wellknown.AnnotationTTL, "1s"))
	job := s.train("elsewhere", "torch", deadlined(1*second), at("spec.managedBy", "kueue.x-k8s.io/multikueue"))
	s.outlastDeadline(job.GetCreationTimestamp().Add(1*second + grace))
	now := s.getTrainJob("elsewhere")
	// Trainer itself heeds the field from v2.3.0 on. Before, it enforces a deadline all the same.
	if failed, _ := failure(now); strings.Contains(failed.Message, "longer than its deadline") || now.GetDeletionTimestamp() != nil {
		t.Errorf("it was touched: %v", now.Object["status"])
	}
	for key := range now.GetAnnotations() {
		if key != wellknown.AnnotationActiveDeadline && strings.HasPrefix(key, wellknown.Prefix) {
			t.Errorf("it was given %s", key)
		}
	}
	for _, sent := range suite.proxy.Deletes(s.name, "elsewhere") {
		t.Errorf("Curfew sent a DELETE: %+v", sent)
	}
}

// A deadline that the author did not write comes from the namespace, or from a LifecyclePolicy:
// into Trainer's field where there is one, else into an annotation. It is carried out like any
// other, and bounds hold for it.
func TestPeersDefaultDeadline(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t, wellknown.AnnotationDefaultDeadline, "8s", wellknown.AnnotationMaxDeadline, "1h")
	s.newRuntime("torch", true)
	where := "curfew.dev/active-deadline defaulted to 8s"
	path, own := ".metadata.annotations.curfew\\.dev/active-deadline", "metadata.annotations[curfew.dev/active-deadline]"
	tooLong, tooShort := "2h0m0s", "5s"
	if suite.peers.native() {
		tooLong, tooShort = "7200 (2h)", "5 (5s)"
		where, path, own = "activeDeadlineSeconds defaulted to 8 (8s)", ".spec.activeDeadlineSeconds", "spec.activeDeadlineSeconds"
	}
	torch := at("spec.runtimeRef.kind", "TrainingRuntime")
	s.eventually(row{s.trainJob("probe", "torch", torch), warned(where + ` from namespace "` + s.name + `"`)})
	job := s.train("defaulted", "torch")
	if got := s.jsonpath("trainjob", "defaulted", path); strings.TrimSuffix(got, "s") != "8" {
		t.Errorf("%s is %q, want 8s", path, got)
	}
	s.wouldCreate(row{s.trainJob("long", "torch", torch, deadlined(2*hour)), denied("validate.trainjobs.trainer.kubeflow.org.curfew.dev",
		own+": "+tooLong+` is above curfew.dev/max-deadline 1h of namespace "`+s.name+`": use 1h or less`)})

	// The same from a policy, in a namespace that says nothing.
	p := newPeerSpace(t)
	p.newRuntime("torch", true)
	name := p.policy("deadline", "kinds: [{group: trainer.kubeflow.org, kind: TrainJob}]", "defaults: {deadline: {value: 8s}}, bounds: {minDeadline: 6s}")
	p.eventually(row{p.trainJob("probe", "torch", torch), warned(where + ` from policy "` + name + `"`)})
	// The rules of the validating webhook may take effect a moment later than the mutating ones.
	want, short := own+": "+tooShort+` is below minDeadline 6s of policy "`+name+`": use 6s or more`, p.manifest(p.trainJob("short", "torch", torch, deadlined(5*second)))
	p.poll("a deadline below the policy's bound to be refused", func(context.Context) (bool, error) {
		out := p.kubectlInput(short, "create", "--dry-run=server", "-f", "-")
		return out.failed && strings.Contains(out.stderr, want), nil
	})
	other := p.train("defaulted", "torch")
	s.awaitExceeded(job, job.GetCreationTimestamp().Add(8*second))
	p.awaitExceeded(other, other.GetCreationTimestamp().Add(8*second))
	s.awaitStopped(job)
	p.awaitStopped(other)
}

// The first deletion of a child fails, whoever sends it: that of the JobSet from v2.2.0 on, where
// Trainer never sends a second one (kubeflow/trainer#3833), that of the JobSet's Jobs before.
// Nothing leaks. On a busy machine Trainer may be later than Curfew's grace, and then sends no
// deletion that could fail: it is played again, with more time.
func TestPeersFirstChildDeletionFails(t *testing.T) {
	parallel(t)
	inTime(t, 8*second, func(deadline time.Duration) bool { return firstChildDeletionFails(t, deadline) })
}

// firstChildDeletionFails reports whether the controllers sent a deletion.
func firstChildDeletionFails(t *testing.T, deadline time.Duration) bool {
	s := newPeerSpace(t)
	s.newRuntime("torch", true)
	child := "jobsets"
	if !suite.peers.native() {
		child = "jobs"
	}
	refuse := func(proxy *harness.Proxy, resources ...string) (count *atomic.Int32) {
		count = &atomic.Int32{}
		remove := proxy.Handle(func(w http.ResponseWriter, r *http.Request) bool {
			resource, namespace, _ := harness.Target(r.URL.Path)
			for _, name := range resources {
				if r.Method == http.MethodDelete && namespace == s.name && resource == name {
					if count.Add(1) == 1 {
						w.WriteHeader(http.StatusInternalServerError)
						return true
					}
				}
			}
			return false
		})
		t.Cleanup(remove)
		return count
	}
	theirs, ours := refuse(suite.peers.proxy, child), refuse(suite.proxy, child, "pods")
	job := s.train("leaks", "torch", deadlined(deadline))
	if !s.runsInTime(job) {
		return false
	}
	due := job.GetCreationTimestamp().Add(deadline)
	s.awaitExceeded(job, due)
	stopped := s.awaitStopped(job)
	if theirs.Load() == 0 {
		t.Logf("note: Curfew deleted %s before the controllers did", child)
		return false
	}
	if suite.peers.native() {
		if theirs, ours := theirs.Load(), ours.Load(); theirs != 1 || ours < 2 {
			t.Errorf("Trainer sent %d deletions and Curfew %d, want 1, which failed, and a second one after the first of Curfew's failed", theirs, ours)
		}
		if early := due.Add(grace).Sub(stopped); early > 0 {
			t.Errorf("Curfew did not leave Trainer its grace period, it was %s early", early)
		}
	}
	s.staysStopped(job, stopped, long())
	return true
}

// A reconcile that began before the mark overwrites the conditions, and creates the deleted objects
// again. Curfew marks and deletes again, every time.
func TestPeersStaleReconcile(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("torch", true)
	job, due := s.trainUntil("stale", "torch", 8*second)
	s.awaitExceeded(job, due)
	s.awaitStopped(job)
	for range 3 {
		erased := now()
		if suite.peers.native() {
			s.expectSuccess(s.kubectl("patch", "trainjob", job.GetName(), "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[]}}`))
		} else {
			// Trainer copies: the mark that counts is that of the JobSet.
			s.expectSuccess(s.kubectl("patch", "jobset", job.GetName(), "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[],"terminalState":""}}`))
			s.expectSuccess(s.kubectl("patch", "trainjob", job.GetName(), "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[]}}`))
		}
		s.await("the mark to be back", func(e harness.Event) bool {
			return e.Kind == "TrainJob" && e.GetUID() == job.GetUID() && e.At.After(erased) && exceeded(e)
		})
		s.awaitStopped(job)
	}
	s.outlastDeadline(now().Add(long()))
	if now := s.getTrainJob(job.GetName()); !exceeded(now) {
		t.Errorf("at the end its conditions are %v", conditions(now))
	}
	if left := s.activePods(job); len(left) > 0 {
		t.Errorf("at the end its Pods %v are active", left)
	}
}

// A JobSet by itself has no deadline of its own: Curfew marks it as its own controller would, and
// that stops its Jobs.
func TestPeersJobSetDeadline(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	held := at("spec.replicatedJobs[0].template.spec.template.metadata", map[string]any{"annotations": map[string]any{hold: "true"}})
	s.creates(row{s.jobSet("hangs", held, noted(wellknown.AnnotationActiveDeadline, "8s")), ""}, row{s.jobSet("far", held, noted(wellknown.AnnotationActiveDeadline, "1h")), ""})
	started := s.metaOf("jobset", "hangs").CreationTimestamp.Time
	event := s.await("the JobSet to exceed its deadline", func(e harness.Event) bool { return e.Kind == "JobSet" && e.GetName() == "hangs" && exceeded(e) })
	s.notEarly(event, started.Add(8*second))
	s.poll("its Job to be gone", func(ctx context.Context) (bool, error) {
		left, err := suite.cluster.Client.BatchV1().Jobs(s.name).List(ctx, metav1.ListOptions{LabelSelector: "jobset.sigs.k8s.io/jobset-name=hangs"})
		return err == nil && len(left.Items) == 0, err
	})
	s.outlastDeadline(time.Now().Add(long()))
	if left := s.activePods(event); len(left) > 0 {
		t.Errorf("its Pods %v are active", left)
	}
	if left := s.activePods(s.metaOf("jobset", "far")); len(left) != 1 {
		t.Errorf("the other JobSet has the active Pods %v, want one", left)
	}
}

// A deadline that passes before any Pod has started fails the TrainJob all the same.
func TestPeersDeadlineBeforeAnyPodStarted(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	s.newRuntime("nowhere", true, at("spec.template.spec.replicatedJobs[0].template.spec.template.spec.nodeSelector", map[string]any{"e2e.curfew.dev/none": "true"}))
	job := s.train("pending", "nowhere", deadlined(1*second))
	s.awaitExceeded(job, job.GetCreationTimestamp().Add(1*second))
	stopped := s.awaitStopped(job)
	s.staysStopped(job, stopped, long())
}

// What the Kubeflow SDK sends when a data scientist gives TrainerClient().train
// options=[Annotations({...})] reaches Curfew unchanged, past all webhooks, and the deadline in it
// is enforced.
func TestPeersSDK(t *testing.T) {
	parallel(t)
	s := newPeerSpace(t)
	cluster := s.name + "-torch"
	s.newClusterRuntime(cluster)
	t.Cleanup(func() {
		s.afterwards("delete", "clustertrainingruntime", cluster, "--ignore-not-found", "--wait=false")
	})
	sent := s.sdkTrainJob(cluster)
	given := sent.GetAnnotations()
	var job *unstructured.Unstructured
	s.poll("Trainer to know the runtime", func(ctx context.Context) (bool, error) {
		var err error
		job, err = suite.peers.objects.Resource(trainJobs).Namespace(s.name).Create(ctx, sent, metav1.CreateOptions{})
		if err != nil && strings.Contains(err.Error(), "must be created before the TrainJob") {
			return false, nil
		}
		return err == nil, err
	})
	got := s.getTrainJob(job.GetName()).GetAnnotations()
	delete(got, wellknown.AnnotationDeadlineSource) // of the copy in the field
	for key, want := range given {
		if got[key] != want {
			t.Errorf("annotation %s became %q, want %q", key, got[key], want)
		}
	}
	if len(got) != len(given) {
		t.Errorf("the annotations became %v", got)
	}
	// Where there is the field, the annotation was copied there, and Trainer enforces it.
	s.awaitExceeded(job, job.GetCreationTimestamp().Add(20*second))
	s.awaitStopped(job)
}
