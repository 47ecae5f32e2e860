package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/test/harness"
)

// space is a test's own namespace.
type space struct {
	*testing.T
	ctx      context.Context
	name     string
	observer *harness.Observer
}

var spaces atomic.Int64

// newSpace makes a namespace with annotations, given as key, value, key, value.
func newSpace(t *testing.T, annotations ...string) *space {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &space{T: t, ctx: ctx, name: fmt.Sprintf("e2e-%d", spaces.Add(1))}
	s.ok(suite.cluster.NewNamespace(ctx, s.name, pairs(annotations)))
	var err error
	s.observer, err = suite.cluster.Observe(ctx, s.name)
	s.ok(err)
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("note: namespace %s; the controller's log on it:\n%s", s.name, strings.Join(logLines(suite.controller.Log, s.name), "\n"))
		}
	})
	return s
}

func pairs(list []string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		out[list[i]] = list[i+1]
	}
	return out
}

func (s *space) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// output is what one call of kubectl printed.
type output struct {
	stdout, stderr string
	failed         bool
}

// kubectl runs kubectl in the namespace.
func (s *space) kubectl(args ...string) output {
	return s.kubectlInput("", args...)
}

func (s *space) kubectlInput(input string, args ...string) output {
	ctx, end := s.waiting("kubectl " + strings.Join(args, " "))
	defer end()
	for {
		stdout, stderr, err := suite.cluster.KubectlInput(ctx, input, append([]string{"--namespace", s.name}, args...)...)
		if err == nil || !tooBusy.MatchString(stderr) || ctx.Err() != nil {
			return output{stdout, seeHelp.ReplaceAllString(stderr, ""), err != nil}
		}
		s.Logf("note: tries again: %s", stderr)
	}
}

// tooBusy is what the API server answers where a webhook that fails closed was not in time.
var tooBusy = regexp.MustCompile(`failed calling webhook "[^"]*curfew\.dev": .*context deadline exceeded`)

// seeHelp is how an answer of Curfew leads to help on its rules. Tests of the webhook check it.
var seeHelp = regexp.MustCompile(`(?m)^Warning: curfew: ` + rules.SeeHelp + `.*\n|; ` + rules.SeeHelp + `.*$`)

// afterwards runs kubectl when the test and its context have ended, to delete objects outside its
// namespace.
func (s *space) afterwards(args ...string) output {
	ctx, end := harness.Waiting(context.Background(), s.Name()+": kubectl "+strings.Join(args, " "))
	defer end()
	stdout, stderr, err := suite.cluster.Kubectl(ctx, args...)
	return output{stdout, stderr, err != nil}
}

// create creates objects with `kubectl create -f -`.
func (s *space) create(objects ...any) output {
	s.Helper()
	return s.kubectlInput(s.manifest(objects...), "create", "-f", "-")
}

// manifest is objects as kubectl reads them. The creation timestamps that Go writes as null do no
// harm.
func (s *space) manifest(objects ...any) string {
	s.Helper()
	var text []string
	for _, object := range objects {
		data, err := json.Marshal(object)
		s.ok(err)
		text = append(text, string(data))
	}
	return strings.Join(text, "\n---\n")
}

// expectSuccess fails the test unless a command succeeded.
func (s *space) expectSuccess(out output) output {
	s.Helper()
	if out.failed {
		s.Fatalf("refused: %s", out.stderr)
	}
	return out
}

// expectStderr fails the test unless a command succeeded and its stderr is exactly these lines.
func (s *space) expectStderr(out output, lines ...string) {
	s.Helper()
	s.expectSuccess(out)
	if want := joined(lines); out.stderr != want {
		s.Fatalf("kubectl said:\n%s\nwant:\n%s", out.stderr, want)
	}
}

// expectRefusal fails the test unless a command failed and its stderr is exactly these lines.
func (s *space) expectRefusal(out output, lines ...string) {
	s.Helper()
	if !out.failed {
		s.Fatalf("it was not refused: %s%s", out.stdout, out.stderr)
	}
	if want := joined(lines); out.stderr != want {
		s.Fatalf("kubectl said:\n%s\nwant:\n%s", out.stderr, want)
	}
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// denied is how kubectl tells of a denial of one of Curfew's webhooks to one who creates from
// standard input.
func denied(webhook, reason string) string {
	return `Error from server (Forbidden): error when creating "STDIN": admission webhook "` + webhook + `" denied the request: ` + reason
}

// newJob and newPod create through the API and return what the API server made of it.
func (s *space) newJob(job *batchv1.Job) *batchv1.Job {
	s.Helper()
	created, err := suite.cluster.Client.BatchV1().Jobs(s.name).Create(s.ctx, job, metav1.CreateOptions{})
	s.ok(err)
	return created
}

func (s *space) newPod(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	created, err := suite.cluster.Client.CoreV1().Pods(s.name).Create(s.ctx, pod, metav1.CreateOptions{})
	s.ok(err)
	return created
}

// getJob reads a Job, or returns nil if there is none.
func (s *space) getJob(name string) *batchv1.Job {
	s.Helper()
	job, err := suite.cluster.Client.BatchV1().Jobs(s.name).Get(s.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.ok(err)
	return job
}

func (s *space) getPod(name string) *corev1.Pod {
	s.Helper()
	pod, err := suite.cluster.Client.CoreV1().Pods(s.name).Get(s.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.ok(err)
	return pod
}

// patchJob and patchPod apply a JSON merge patch.
func (s *space) patchJob(name, patch string) {
	s.Helper()
	s.ok(s.tryPatchJob(name, patch))
}

func (s *space) patchPod(name, patch string) {
	s.Helper()
	s.ok(s.tryPatchPod(name, patch))
}

func (s *space) tryPatchJob(name, patch string) error {
	_, err := suite.cluster.Client.BatchV1().Jobs(s.name).Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (s *space) tryPatchPod(name, patch string) error {
	_, err := suite.cluster.Client.CoreV1().Pods(s.name).Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// tryDeleteJob deletes in the background, which needs no finalizer: without Pods the Job is gone at
// once.
func (s *space) tryDeleteJob(name string) error {
	background := metav1.DeletePropagationBackground
	return suite.cluster.Client.BatchV1().Jobs(s.name).Delete(s.ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

// okInHook is ok for what runs in the proxy's handlers, where a test cannot be ended.
func (s *space) okInHook(err error) {
	if err != nil {
		s.Error(err)
	}
}

// await waits for an event of the namespace.
func (s *space) await(what string, condition func(harness.Event) bool) harness.Event {
	s.Helper()
	ctx, end := s.waiting(what)
	defer end()
	event, err := s.observer.Await(ctx, condition)
	if err != nil {
		s.Fatalf("waited in vain for %s: %v", what, err)
	}
	return event
}

// waiting bounds one wait of the test.
func (s *space) waiting(what string) (context.Context, context.CancelFunc) {
	return harness.Waiting(s.ctx, s.Name()+": "+what)
}

// awaitGone waits until an object is no more.
func (s *space) awaitGone(object metav1.Object) harness.Event {
	s.Helper()
	return s.await(object.GetName()+" to be gone", func(e harness.Event) bool {
		return e.Type == watch.Deleted && e.GetUID() == object.GetUID()
	})
}

// awaitDeletion waits for the first sign that an object was deleted: it is gone, or terminating.
func (s *space) awaitDeletion(object metav1.Object) harness.Event {
	s.Helper()
	return s.await(object.GetName()+" to be deleted", func(e harness.Event) bool {
		return e.GetUID() == object.GetUID() && (e.Type == watch.Deleted || e.GetDeletionTimestamp() != nil)
	})
}

// awaitJobFinish waits until a Job has finished, and returns when that was.
func (s *space) awaitJobFinish(job metav1.Object) time.Time {
	s.Helper()
	event := s.await(job.GetName()+" to finish", func(e harness.Event) bool {
		if e.GetUID() != job.GetUID() || e.Job() == nil {
			return false
		}
		_, finished := harness.JobFinish(e.Job())
		return finished
	})
	t, _ := harness.JobFinish(event.Job())
	return t
}

func (s *space) awaitPodFinish(pod metav1.Object) time.Time {
	s.Helper()
	event := s.await(pod.GetName()+" to finish", func(e harness.Event) bool {
		if e.GetUID() != pod.GetUID() || e.Pod() == nil {
			return false
		}
		_, finished := harness.PodFinish(e.Pod())
		return finished
	})
	t, _ := harness.PodFinish(event.Pod())
	return t
}

// notEarly fails the test if a deletion came before an expiry. How long after it is what benchmarks
// measure, on a machine that does nothing else.
func (s *space) notEarly(deletion harness.Event, expiry time.Time) {
	s.Helper()
	if early := expiry.Sub(deletion.At); early > 0 {
		s.Fatalf("EARLY DELETE: %s was deleted %s before its expiry", deletion.GetName(), early)
	}
}
