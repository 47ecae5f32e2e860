package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// The finished Pods of a running Job are deleted on its pod-ttl. The Pods of a Job without one
// stay, and "never" wins over the namespace.
func TestPodsOfAJobGoOnlyWhenAccountedFor(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	keeps := newSpace(t, longStanding(wellknown.AnnotationDefaultPodTTL, "1s")...)
	for _, each := range []struct {
		*space
		name, ttl string
		deleted   bool
	}{
		{s, "soon", "1s", true}, {s, "silent", "", false}, {s, "later", "1h", false}, {keeps, "never", "never", false}, {keeps, "default", "", true},
	} {
		running := job(each.name, inTemplate(hold, "true"), sized(2, 2))
		if each.ttl != "" {
			running.Annotations = map[string]string{wellknown.AnnotationPodTTL: each.ttl}
		}
		created := each.newJob(running)
		child := each.await("a Pod of "+each.name, func(e harness.Event) bool {
			return e.Pod() != nil && e.Pod().Status.Phase == corev1.PodRunning && metav1.IsControlledBy(e.Pod(), created)
		})
		each.patchPod(child.GetName(), `{"metadata":{"annotations":{"`+hold+`":null}}}`)
		finish := each.awaitPodFinish(child)
		if each.deleted {
			each.awaitGone(child)
			for _, event := range each.observer.History(child.GetUID()) {
				if (event.Type == watch.Deleted || event.GetDeletionTimestamp() != nil) && tracked(event.Pod()) {
					t.Errorf("a Pod of %s was deleted before its Job had accounted for it", each.name)
				}
			}
		} else {
			each.outlast(finish.Add(second))
			each.stillThere(child)
		}
		if got := each.getJob(each.name).Status; got.Succeeded != 1 || got.Active != 1 || got.Failed != 0 {
			t.Errorf("%s: succeeded %d, active %d, failed %d, want 1, 1, 0", each.name, got.Succeeded, got.Active, got.Failed)
		}
	}
	// What a running Job comes to say reaches the Pods that have finished.
	var left []metav1.Object
	pods, err := suite.cluster.Client.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{FieldSelector: "status.phase=Succeeded"})
	s.ok(err)
	for i := range pods.Items {
		left = append(left, &pods.Items[i])
	}
	if len(left) != 2 {
		t.Fatalf("%d finished Pods are left, want 2", len(left))
	}
	s.expectSuccess(s.kubectl("annotate", "job", "silent", wellknown.AnnotationPodTTL+"=1s"))
	s.expectSuccess(s.kubectl("annotate", "--overwrite", "job", "later", wellknown.AnnotationPodTTL+"=1s"))
	for _, object := range left {
		s.awaitGone(object)
	}
}

func sized(completions, parallelism int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &completions, &parallelism }
}

func indexed(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

// onExitCode1 is what kwok's failed Pods meet.
func onExitCode1(actions ...batchv1.PodFailurePolicyAction) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
		for _, action := range actions {
			j.Spec.PodFailurePolicy.Rules = append(j.Spec.PodFailurePolicy.Rules, batchv1.PodFailurePolicyRule{Action: action,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{1}}})
		}
	}
}

// trial is a Job that is run twice, with its finished Pods deleted at once and without Curfew.
type trial struct {
	changes []func(*batchv1.Job)
	// ends says how a held Pod of an index, or of none (-1), ends: the number of its attempt begins
	// with 0.
	ends func(index, attempt int) ending
	// once is called when so many Pods have been let go.
	once map[int]func(s *space)
}

type ending int

const (
	succeeds ending = iota
	fails
	staysOn
	isDeleted
)

// Whatever a Job controller derives from its Pods it has in the Job's status by the time that it
// lets them go (S5).
func TestJobsWithoutTheirFinishedPods(t *testing.T) {
	parallel(t)
	odd := func(index, _ int) ending { return ending(index % 2) }
	first := func(index, attempt int) ending {
		if attempt == 0 && index%2 == 1 {
			return fails
		}
		return succeeds
	}
	zeroth := func(end, others ending) func(int, int) ending {
		return func(index, _ int) ending {
			if index == 0 {
				return end
			}
			return others
		}
	}
	perIndex := func(limit int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.BackoffLimit, j.Spec.BackoffLimitPerIndex = nil, &limit }
	}
	for name, each := range map[string]trial{
		"completions": {changes: []func(*batchv1.Job){sized(30, 6)}},
		"indexes":     {changes: []func(*batchv1.Job){sized(30, 6), indexed}},
		"a failure that is made up for": {changes: []func(*batchv1.Job){sized(4, 4), func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](2) }, indexed},
			ends: func(index, attempt int) ending {
				return zeroth(map[bool]ending{true: fails, false: succeeds}[attempt == 0], succeeds)(index, attempt)
			}},
		"too many failures":    {changes: []func(*batchv1.Job){sized(2, 2), func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](1) }, indexed}, ends: zeroth(fails, staysOn)},
		"backoffLimitPerIndex": {changes: []func(*batchv1.Job){sized(6, 6), indexed, perIndex(0)}, ends: odd},
		"an attempt more":      {changes: []func(*batchv1.Job){sized(4, 4), indexed, perIndex(1)}, ends: first},
		"maxFailedIndexes":     {changes: []func(*batchv1.Job){sized(6, 6), indexed, perIndex(0), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = ptr.To[int32](0) }}, ends: zeroth(fails, staysOn)},
		"FailJob":              {changes: []func(*batchv1.Job){sized(4, 4), indexed, onExitCode1(batchv1.PodFailurePolicyActionFailJob)}, ends: zeroth(fails, staysOn)},
		"Ignore":               {changes: []func(*batchv1.Job){sized(4, 4), indexed, onExitCode1(batchv1.PodFailurePolicyActionIgnore)}, ends: first},
		"FailIndex":            {changes: []func(*batchv1.Job){sized(4, 4), indexed, perIndex(3), onExitCode1(batchv1.PodFailurePolicyActionFailIndex)}, ends: odd},
		"successPolicy": {changes: []func(*batchv1.Job){sized(4, 4), indexed, func(j *batchv1.Job) {
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}}}
		}}, ends: zeroth(succeeds, staysOn)},
		"elastic": {changes: []func(*batchv1.Job){sized(4, 4), indexed}, ends: func(int, int) ending { return succeeds },
			once: map[int]func(*space){2: func(s *space) { s.patchJob("trial", `{"spec":{"completions":8,"parallelism":8}}`) }}},
		"podReplacementPolicy": {changes: []func(*batchv1.Job){sized(4, 4), indexed, func(j *batchv1.Job) {
			j.Spec.PodReplacementPolicy, j.Spec.BackoffLimit = ptr.To(batchv1.Failed), ptr.To[int32](2)
		}}, ends: func(index, attempt int) ending {
			return zeroth(map[bool]ending{true: isDeleted, false: succeeds}[attempt == 0], succeeds)(index, attempt)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			want := runTrial(newSpace(t), each, "")
			s := newSpace(t)
			if got := runTrial(s, each, "0"); got != want {
				t.Errorf("without its finished Pods it ended with\n%s\nand with them with\n%s", got, want)
			}
			s.poll("its finished Pods to be gone", func(ctx context.Context) (bool, error) {
				left, err := suite.cluster.Client.CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{})
				return err == nil && len(left.Items) == 0, nil
			})
		})
	}
}

// runTrial runs the Job of a trial and returns what its status says in the end.
func runTrial(s *space, t trial, podTTL string) string {
	s.Helper()
	created := job("trial", t.changes...)
	if t.ends != nil {
		inTemplate(hold, "true")(created)
	}
	if podTTL != "" {
		annotated(wellknown.AnnotationPodTTL, podTTL)(created)
	}
	s.newJob(created)
	attempts, released := map[int]int{}, map[string]bool{}
	s.poll("the Job to finish", func(ctx context.Context) (bool, error) {
		if t.ends != nil {
			s.letGo(ctx, t, attempts, released)
		}
		_, finished := harness.JobFinish(s.getJob("trial"))
		return finished, nil
	})
	s.poll("its counts to be final", func(context.Context) (bool, error) {
		return ptr.Deref(s.getJob("trial").Status.Terminating, 0) == 0, nil
	})
	status := s.getJob("trial").Status
	out := fmt.Sprintf("succeeded %d (%s), failed %d (%s), active %d, ready %d", status.Succeeded, status.CompletedIndexes, status.Failed,
		ptr.Deref(status.FailedIndexes, "-"), status.Active, ptr.Deref(status.Ready, 0))
	if uncounted := status.UncountedTerminatedPods; uncounted != nil && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 {
		out += ", some uncounted"
	}
	for i := range status.Conditions {
		out += fmt.Sprintf("\n%s %s %s", status.Conditions[i].Type, status.Conditions[i].Status, status.Conditions[i].Reason)
	}
	return out
}

// letGo lets those Pods of a trial go that have begun to run since.
func (s *space) letGo(ctx context.Context, t trial, attempts map[int]int, released map[string]bool) {
	pods, err := suite.cluster.Client.CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
	if err != nil {
		return
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return indexOf(&a) - indexOf(&b) })
	for i := range pods.Items {
		p := &pods.Items[i]
		if released[p.Name] {
			continue
		}
		index := indexOf(p)
		switch t.ends(index, attempts[index]) {
		case succeeds:
			err = s.tryPatchPod(p.Name, `{"metadata":{"annotations":{"`+hold+`":null}}}`)
		case fails:
			err = s.tryPatchPod(p.Name, `{"metadata":{"annotations":{"`+hold+`":null,"`+fail+`":"true"}}}`)
		case isDeleted:
			err = suite.cluster.Client.CoreV1().Pods(s.name).Delete(ctx, p.Name, metav1.DeleteOptions{})
		case staysOn:
			err = nil
		}
		if err != nil {
			continue
		}
		attempts[index]++
		released[p.Name] = true
		if do := t.once[len(released)]; do != nil {
			do(s)
		}
	}
}

func indexOf(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return index
}

// The counts of a Job are exact while its Pods are deleted at once. With PODS=full (make test-full)
// it has 10,000 completions, and never half of its Pods at once.
func TestJobOfManyCompletions(t *testing.T) {
	parallel(t)
	// Here few at a time, so that the Pods of other tests do not wait behind these.
	completions, parallelism := int32(200), int32(10)
	full := os.Getenv("PODS") == "full"
	if full {
		completions, parallelism = 10_000, 50
	}
	s := newSpace(t)
	created := s.newJob(job("many", sized(completions, parallelism), indexed, annotated(wellknown.AnnotationPodTTL, "0")))
	peak := 0
	for done, finished := int32(0), false; !finished; done += 100 {
		s.poll(fmt.Sprintf("more than %d completions", done), func(ctx context.Context) (bool, error) {
			pods, err := suite.cluster.Client.CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err == nil {
				peak = max(peak, len(pods.Items))
			}
			job := s.getJob("many")
			_, finished = harness.JobFinish(job)
			return finished || job.Status.Succeeded > done, nil
		})
	}
	if got := s.getJob("many").Status; got.Succeeded != completions || got.Failed != 0 {
		t.Errorf("it ended with %d succeeded and %d failed, want %d and 0", got.Succeeded, got.Failed, completions)
	}
	t.Logf("note: %d completions, at most %d Pods at once", completions, peak)
	// Beside other tests, or on a busy machine, their number says nothing.
	if most := int(completions / 2); full && peak > most {
		t.Errorf("there were %d Pods at once, want at most %d", peak, most)
	}
	s.stillThere(created)
}
