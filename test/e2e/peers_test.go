package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// The tests whose names begin with TestPeers run beside the real controllers of JobSet and Trainer,
// with PEERS=v2.3.0 for example: make test-full PART=peers. Their Pods are finished, or held running, by
// kwok. All other runs leave them out by name (-skip).

// peers are the controllers of the other projects.
type peers struct {
	trainer         harness.Peer
	proxy           *harness.Proxy // between them and the API server
	jobset, manager *harness.Curfew
	objects         dynamic.Interface
}

// grace is how long Curfew leaves a deadline to Trainer in these tests. The profile that comes with
// Curfew says 30s, which start holds it to, and would make the tests long.
const grace = 6 * second

func (p *peers) start(ctx context.Context, trainer harness.Peer) (err error) {
	p.trainer = trainer
	if p.objects, err = dynamic.NewForConfig(suite.cluster.Config); err != nil {
		return err
	}
	if p.proxy, err = harness.NewProxy(suite.cluster.Config); err != nil {
		return err
	}
	for _, name := range []string{"jobset", "trainer"} {
		if err := os.RemoveAll(suite.cluster.Log(name)); err != nil {
			return fmt.Errorf("remove an earlier run's log: %w", err)
		}
	}
	if p.jobset, err = suite.cluster.StartPeer(ctx, harness.JobSet, harness.PeerOptions{Proxy: p.proxy, Out: os.Stderr}); err != nil {
		return err
	}
	if err := p.startTrainer(ctx); err != nil {
		return err
	}
	return p.shortenGrace(ctx)
}

// shortenGrace applies the profile of TrainJobs that comes with Curfew, with another grace period:
// a cluster's own profile counts.
func (p *peers) shortenGrace(ctx context.Context) error {
	shipped, err := os.ReadFile("../../manifests/profiles/trainjob.yaml")
	if err != nil {
		return err
	}
	const theirs = "graceSeconds: 30\n"
	if strings.Count(string(shipped), theirs) != 1 {
		return fmt.Errorf("manifests/profiles/trainjob.yaml: want %q once", theirs)
	}
	own := strings.Replace(string(shipped), theirs, fmt.Sprintf("graceSeconds: %d\n", int(grace.Seconds())), 1)
	for _, args := range [][]string{{"apply", "-f", "-"}, {"wait", "kindprofile/trainjobs.trainer.kubeflow.org", "--for=condition=Ready", "--timeout=10m"}} {
		if _, stderr, err := suite.cluster.KubectlInput(ctx, own, args...); err != nil {
			return fmt.Errorf("shorten the grace period: %w\n%s", err, stderr)
		}
	}
	return nil
}

func (p *peers) startTrainer(ctx context.Context) (err error) {
	p.manager, err = suite.cluster.StartPeer(ctx, p.trainer, harness.PeerOptions{Proxy: p.proxy, Out: os.Stderr})
	return err
}

func (p *peers) stop() error {
	ctx, end := harness.Waiting(context.Background(), "JobSet and Trainer to stop")
	defer end()
	err := errors.Join(p.manager.Stop(ctx), p.jobset.Stop(ctx))
	p.proxy.Close()
	return err
}

// native reports whether this version of Trainer has a deadline of its own.
func (p *peers) native() bool { return !strings.HasPrefix(p.trainer.Version, "v2.1.") }

var (
	trainJobs = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
	jobSets   = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
)

// peerSpace is a test's namespace in which the observer also follows TrainJobs and JobSets.
type peerSpace struct{ *space }

func newPeerSpace(t *testing.T, annotations ...string) peerSpace {
	t.Helper()
	if suite.peers.manager == nil {
		t.Fatal("the controllers of JobSet and Trainer do not run: make test-full PART=peers starts them, and -skip '^TestPeers' leaves these tests out")
	}
	s := newSpace(t, annotations...)
	for kind, resource := range map[string]schema.GroupVersionResource{"TrainJob": trainJobs, "JobSet": jobSets} {
		watcher, err := suite.peers.objects.Resource(resource).Namespace(s.name).Watch(s.ctx, metav1.ListOptions{})
		s.ok(err)
		go s.observer.Follow(kind, watcher)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("note: the log of Trainer on %s:\n%s", s.name, strings.Join(lastOf(logLines(suite.peers.manager.Log, s.name), 30), "\n"))
		}
	})
	return peerSpace{s}
}

func lastOf(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// The runtimes of these tests run two Pods, which end at once or, held, never.
func (s peerSpace) newRuntime(name string, held bool, changes ...func(trained)) {
	s.Helper()
	s.expectSuccess(s.create(s.peerRuntime("TrainingRuntime", name, held, changes...)))
}

// newClusterRuntime makes one for all namespaces, whose Pods are held.
func (s peerSpace) newClusterRuntime(name string) {
	s.Helper()
	s.expectSuccess(s.create(s.peerRuntime("ClusterTrainingRuntime", name, true)))
}

func (s peerSpace) peerRuntime(kind, name string, held bool, changes ...func(trained)) trained {
	s.Helper()
	return s.trained(`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: `+kind+`, metadata: {name: `+name+`}, spec: {mlPolicy: {numNodes: 2}, template: {spec: {replicatedJobs: [
		{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {backoffLimit: 0, template: {
			metadata: {annotations: {`+hold+`: "`+fmt.Sprint(held)+`"}}, spec: {containers: [{name: node, image: "busybox:1.37"}]}}}}}]}}}}`, changes...)
}

// deadlined gives a TrainJob a deadline as its version of Trainer has it: in the field, else in
// Curfew's annotation.
func deadlined(after time.Duration) func(trained) {
	if suite.peers.native() {
		return at("spec.activeDeadlineSeconds", int(after.Seconds()))
	}
	return noted(wellknown.AnnotationActiveDeadline, after.String())
}

// train creates a TrainJob that uses a TrainingRuntime of the namespace. Trainer refuses it while
// it has not heard of that.
func (s peerSpace) train(name, runtime string, changes ...func(trained)) *unstructured.Unstructured {
	s.Helper()
	manifest := s.manifest(s.trainJob(name, runtime, append(changes, at("spec.runtimeRef.kind", "TrainingRuntime"))...))
	var out output
	s.poll("Trainer to know the runtime "+runtime, func(context.Context) (bool, error) {
		out = s.kubectlInput(manifest, "create", "-f", "-")
		return !out.failed || !strings.Contains(out.stderr, "must be created before the TrainJob"), nil
	})
	s.expectSuccess(out)
	return s.getTrainJob(name)
}

func (s peerSpace) getTrainJob(name string) *unstructured.Unstructured {
	s.Helper()
	read, err := suite.peers.objects.Resource(trainJobs).Namespace(s.name).Get(s.ctx, name, metav1.GetOptions{})
	s.ok(err)
	return read
}

func (s peerSpace) getJobSets() []unstructured.Unstructured {
	s.Helper()
	list, err := suite.peers.objects.Resource(jobSets).Namespace(s.name).List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	return list.Items
}

// conditions of an object as the API has them.
func conditions(object metav1.Object) []metav1.Condition {
	if event, ok := object.(harness.Event); ok {
		object = event.Object
	}
	read, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(read.Object, "status", "conditions")
	var out []metav1.Condition
	for _, each := range list {
		fields, _ := each.(map[string]any)
		text := func(name string) string { value, _ := fields[name].(string); return value }
		t, _ := time.Parse(time.RFC3339, text("lastTransitionTime"))
		out = append(out, metav1.Condition{Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"),
			Message: text("message"), LastTransitionTime: metav1.NewTime(t)})
	}
	return out
}

// failure is the condition that says that the object failed, and how many there are.
func failure(object metav1.Object) (failed metav1.Condition, n int) {
	for _, c := range conditions(object) {
		if c.Type == "Failed" {
			failed, n = c, n+1
		}
	}
	return failed, n
}

func exceeded(object metav1.Object) bool {
	failed, n := failure(object)
	return n == 1 && failed.Status == metav1.ConditionTrue && failed.Reason == policy.ReasonDeadlineExceeded
}

func isTrue(object metav1.Object, kind string) (since time.Time, yes bool) {
	for _, c := range conditions(object) {
		if c.Type == kind && c.Status == metav1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// awaitRunning waits until the Pods of a TrainJob run.
func (s peerSpace) awaitRunning(job metav1.Object) {
	s.Helper()
	if !s.runsInTime(job) {
		s.Fatalf("%s exceeded its deadline before it ran", job.GetName())
	}
}

// runsInTime waits until the Pods of a TrainJob run, and returns false if its deadline came before.
func (s peerSpace) runsInTime(job metav1.Object) bool {
	s.Helper()
	running := map[types.UID]bool{}
	return s.beforeItsDeadline(job, "to have two running Pods", func(e harness.Event) bool {
		if pod := e.Pod(); pod != nil && belongs(pod, job) && pod.Status.Phase == corev1.PodRunning {
			running[pod.UID] = true
		}
		return len(running) == 2
	})
}

// beforeItsDeadline waits for a condition, and returns false if a TrainJob failed before.
func (s peerSpace) beforeItsDeadline(job metav1.Object, what string, condition func(harness.Event) bool) (reached bool) {
	s.Helper()
	s.await(job.GetName()+" "+what, func(e harness.Event) bool {
		reached = condition(e)
		return reached || e.Kind == "TrainJob" && e.GetUID() == job.GetUID() && exceeded(e)
	})
	return reached
}

// trainUntil creates a TrainJob whose Pods run when its deadline comes. On a busy machine they may
// start later. Then another one has twice the time.
func (s peerSpace) trainUntil(name, runtime string, least time.Duration) (job *unstructured.Unstructured, due time.Time) {
	s.Helper()
	inTime(s.T, least, func(deadline time.Duration) bool {
		job = s.train(fmt.Sprintf("%s-%d", name, int(deadline.Seconds())), runtime, deadlined(deadline))
		due = job.GetCreationTimestamp().Add(deadline)
		return s.runsInTime(job)
	})
	return job, due
}

// belongs goes by the label that JobSet puts on Pods and Jobs; the JobSet of a TrainJob has its
// name.
func belongs(object, job metav1.Object) bool {
	return object.GetLabels()["jobset.sigs.k8s.io/jobset-name"] == job.GetName()
}

// awaitExceeded waits until a TrainJob has failed for its deadline, and fails the test if that was
// before an instant. Most of the time it is Trainer that is late.
func (s peerSpace) awaitExceeded(job metav1.Object, due time.Time) harness.Event {
	s.Helper()
	event := s.await(job.GetName()+" to exceed its deadline", func(e harness.Event) bool {
		return e.Kind == "TrainJob" && e.GetUID() == job.GetUID() && exceeded(e)
	})
	if early := due.Sub(event.At); early > 0 {
		s.Errorf("%s failed %s before its deadline", job.GetName(), early)
	}
	return event
}

// activePods are the Pods of a TrainJob that have not finished, terminating ones included.
func (s peerSpace) activePods(job metav1.Object) []string {
	s.Helper()
	list, err := suite.cluster.Client.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	var out []string
	for _, pod := range list.Items {
		if belongs(&pod, job) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			out = append(out, pod.Name)
		}
	}
	return out
}

// awaitStopped waits until nothing of a TrainJob is active: no Pod, no Job that could make one, and
// from v2.2.0 on no JobSet.
func (s peerSpace) awaitStopped(job metav1.Object) time.Time {
	s.Helper()
	var left []string
	err := harness.Poll(s.ctx, s.Name()+": "+job.GetName()+" to be stopped", func(context.Context) (bool, error) {
		left = s.activePods(job)
		list, err := suite.cluster.Client.BatchV1().Jobs(s.name).List(s.ctx, metav1.ListOptions{})
		s.ok(err)
		for i := range list.Items {
			if _, finished := harness.JobFinish(&list.Items[i]); belongs(&list.Items[i], job) && !finished {
				left = append(left, "job/"+list.Items[i].Name)
			}
		}
		for _, set := range s.getJobSets() {
			if set.GetName() == job.GetName() && (suite.peers.native() || !exceeded(&set)) {
				left = append(left, "jobset/"+set.GetName())
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		s.Fatalf("of %s there is still %s: %v", job.GetName(), strings.Join(left, ", "), err)
	}
	return time.Now()
}

// staysStopped waits until long after an instant, and fails the test unless nothing of the TrainJob
// is active then and its mark is there. In between it may have been started again: Trainer deletes
// the JobSet before it writes the mark, so that a reconcile with a cache that has the first and not
// the second creates the JobSet again. Trainer or Curfew deletes it again.
func (s peerSpace) staysStopped(job metav1.Object, from time.Time, long time.Duration) {
	s.Helper()
	s.outlastDeadline(from.Add(long))
	s.awaitStopped(job)
	if now := s.getTrainJob(job.GetName()); now.GetUID() != job.GetUID() || now.GetDeletionTimestamp() != nil || !exceeded(now) {
		s.Errorf("at the end its conditions are %v", conditions(now))
	}
}

// untouched fails the test unless a TrainJob and its JobSet, and the Pods of that, are as they were
// left.
func (s peerSpace) untouched(job metav1.Object) {
	s.Helper()
	for _, e := range s.observer.All() {
		ofIt := e.GetUID() == job.GetUID() || e.Kind == "JobSet" && e.GetName() == job.GetName() || belongs(e, job)
		if _, failed := failure(e); ofIt && (e.Type == watch.Deleted || e.GetDeletionTimestamp() != nil || failed > 0) {
			s.Errorf("at %s %s %s was %s, its conditions %v", e.At.Format(time.TimeOnly), e.Kind, e.GetName(), e.Type, conditions(e))
		}
	}
	s.stillThere(job)
}

// awaitAllGone waits until a TrainJob, and all that it brought about, is gone.
func (s peerSpace) awaitAllGone(job metav1.Object) harness.Event {
	s.Helper()
	gone := s.await(job.GetName()+" to be gone", func(e harness.Event) bool { return e.Type == watch.Deleted && e.GetUID() == job.GetUID() })
	var left []string
	err := harness.Poll(s.ctx, s.Name()+": all of "+job.GetName()+" to be gone", func(context.Context) (bool, error) {
		left = nil
		for _, e := range s.latestStates() {
			if e.Type != watch.Deleted && (e.Kind == "JobSet" && e.GetName() == job.GetName() || belongs(e, job)) {
				left = append(left, e.Kind+"/"+e.GetName())
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		s.Fatalf("%s is gone and has left %s: %v", job.GetName(), strings.Join(left, ", "), err)
	}
	return gone
}

// latestStates is the last that was told of each object.
func (s peerSpace) latestStates() map[types.UID]harness.Event {
	out := map[types.UID]harness.Event{}
	for _, e := range s.observer.All() {
		out[e.GetUID()] = e
	}
	return out
}

// awaitComplete waits until a TrainJob has completed, and returns when that was.
func (s peerSpace) awaitComplete(job metav1.Object) time.Time {
	s.Helper()
	event := s.await(job.GetName()+" to complete", func(e harness.Event) bool {
		_, yes := isTrue(e, "Complete")
		return yes && e.Kind == "TrainJob" && e.GetUID() == job.GetUID()
	})
	since, _ := isTrue(event, "Complete")
	return since
}

// awaitSuspended waits until Trainer says of a TrainJob that it is suspended, or has been resumed,
// and returns since when.
func (s peerSpace) awaitSuspended(job metav1.Object, status metav1.ConditionStatus) time.Time {
	s.Helper()
	var since time.Time
	s.await(fmt.Sprintf("%s to have Suspended=%s", job.GetName(), status), func(e harness.Event) bool {
		for _, c := range conditions(e) {
			if e.Kind == "TrainJob" && e.GetUID() == job.GetUID() && c.Type == "Suspended" && c.Status == status {
				since = c.LastTransitionTime.Time
				return true
			}
		}
		return false
	})
	return since
}

// suspend patches spec.suspend.
func (s peerSpace) suspend(name string, yes bool) {
	s.Helper()
	s.expectSuccess(s.kubectl("patch", "trainjob", name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"suspend":%t}}`, yes)))
}
