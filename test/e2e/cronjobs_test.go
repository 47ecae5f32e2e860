package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// runs starts Jobs of a CronJob at once. Its schedules are minutes of New Year's night: the
// controller starts what it has missed.
type runs struct {
	*space
	cron string
	jobs []*batchv1.Job
}

// next starts a Job with a TTL for its success, whose Pod has an annotation.
func (r *runs) next(ttl, annotation string) *batchv1.Job {
	r.Helper()
	pod := map[string]any{hold: nil, fail: nil}
	if annotation != "" {
		pod[annotation] = "true"
	}
	r.patchCron("", fmt.Sprintf(`{"spec":{"schedule":"%d 2 1 1 *","jobTemplate":{"metadata":{"annotations":{%q:%q,%q:"1h"}},"spec":{"template":{"metadata":{"annotations":%s}}}}}}`,
		len(r.jobs)+1, wellknown.AnnotationTTLSucceeded, ttl, wellknown.AnnotationTTLFailed, r.manifest(pod)))
	if len(r.jobs) == 0 { // missed for longer than the CronJob exists
		r.patchCron("status", fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, format(time.Now().AddDate(0, 0, -370))))
	}
	var started *batchv1.Job
	err := harness.Poll(r.ctx, fmt.Sprintf("%s: Job %d of the CronJob", r.Name(), len(r.jobs)+1), func(context.Context) (bool, error) {
		if all := r.started(); len(all) > len(r.jobs) {
			started = all[len(r.jobs)]
			return true, nil
		}
		// After a new schedule the controller syncs next year, after a change of a Job at once. A
		// second change of the CronJob could conflict with the controller's status update, and then
		// 1.36 fails on the Job that exists already, again and again.
		if len(r.jobs) > 0 {
			return false, r.tryPatchJob(r.jobs[len(r.jobs)-1].Name, fmt.Sprintf(`{"metadata":{"annotations":{"e2e.curfew.dev/touched":%q}}}`, time.Now()))
		}
		return false, nil
	})
	if err != nil {
		r.Fatalf("waited in vain for Job %d of the CronJob: %v", len(r.jobs)+1, err)
	}
	r.jobs = append(r.jobs, started)
	return started
}

func (r *runs) patchCron(subresource, patch string) {
	r.Helper()
	var subresources []string
	if subresource != "" {
		subresources = append(subresources, subresource)
	}
	_, err := suite.cluster.Client.BatchV1().CronJobs(r.name).Patch(r.ctx, r.cron, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	r.ok(err)
}

// started are all Jobs that there ever were.
func (r *runs) started() (out []*batchv1.Job) {
	for _, e := range r.observer.All() {
		if e.Job() != nil && e.Type == watch.Added {
			out = append(out, e.Job())
		}
	}
	return out
}

// A CronJob has history limits, and its Jobs have a TTL. The CronJob controller deletes a Job
// beyond the limit, and Curfew deletes a Job whose TTL has expired. No Job is created again, and
// the CronJob's status stays right.
func TestCronJobHistoryBesideTTL(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	cron := cronJob("nightly")
	cron.Spec.SuccessfulJobsHistoryLimit, cron.Spec.FailedJobsHistoryLimit = ptr.To[int32](1), ptr.To[int32](1)
	s.expectSuccess(s.create(cron))
	r := &runs{space: s, cron: cron.Name}
	status := func() batchv1.CronJobStatus {
		t.Helper()
		read, err := suite.cluster.Client.BatchV1().CronJobs(s.name).Get(s.ctx, "nightly", metav1.GetOptions{})
		s.ok(err)
		return read.Status
	}
	awaitActive := func(jobs ...*batchv1.Job) {
		t.Helper()
		s.poll("the active Jobs to be right", func(context.Context) (bool, error) {
			active := status().Active
			return len(active) == len(jobs) && (len(jobs) == 0 || active[0].UID == jobs[0].UID), nil
		})
	}

	beyond := r.next("1h", "")
	s.awaitJobFinish(beyond)
	awaitActive()
	failed := r.next("4s", fail)
	s.awaitJobFinish(failed)
	awaitActive()
	held := r.next("4s", hold)
	awaitActive(held)
	expired := r.next("1h", "")
	finish := s.awaitJobFinish(expired)
	history := s.observer.History(expired.UID)
	completion := history[len(history)-1].Job().Status.CompletionTime // The second before, sometimes.
	// A CronJob controller that is behind creates a Job again if the Job is deleted before it has read
	// its own last status. No controller that deletes Jobs can prevent that.
	s.poll("the CronJob controller to see the last success", func(context.Context) (bool, error) {
		last := status().LastSuccessfulTime
		return last.Equal(completion), nil
	})
	ttl := time.Since(finish).Truncate(second) + 4*second
	s.patchJob(expired.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, wellknown.AnnotationTTLSucceeded, ttl))
	expiry := finish.Add(ttl)
	s.awaitGone(beyond)
	s.notEarly(s.awaitDeletion(expired), expiry)
	s.awaitGone(expired)
	s.outlast(now())

	s.stillThere(failed)
	s.stillThere(held)
	if got := r.started(); len(got) != 4 {
		t.Errorf("there were %d Jobs, want 4", len(got))
	}
	awaitActive(held)
	if got := status().LastSuccessfulTime; !got.Equal(completion) {
		t.Errorf("the last success was at %v, want %v", got, completion)
	}
	for job, want := range map[*batchv1.Job]int{beyond: 0, expired: 1, failed: 0, held: 0} {
		// One that comes too late, with the same preconditions, finds nothing.
		sent := slices.DeleteFunc(suite.proxy.Deletes(s.name, job.Name), func(d harness.Delete) bool { return d.Status == http.StatusNotFound })
		if len(sent) != want {
			t.Errorf("DELETEs of %s: %+v, want %d", job.Name, sent, want)
		}
	}
	// MissingJob would mean that a Job was deleted before the CronJob controller had seen it
	// finish.
	events, err := suite.cluster.Client.CoreV1().Events(s.name).List(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=CronJob"})
	s.ok(err)
	for _, event := range events.Items {
		// A CronJob controller that is behind its own DELETE sends it again. One that is behind its own
		// status reports UnexpectedJob of a Job that it has started, which is no effect of a deletion.
		again := event.Reason == "FailedDelete" && strings.Contains(event.Message, beyond.Name)
		if !again && !slices.Contains([]string{"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete", "UnexpectedJob"}, event.Reason) {
			t.Errorf("Event %s: %s", event.Reason, event.Message)
		}
	}

	s.patchPod(s.podOf(held).GetName(), `{"metadata":{"annotations":{"`+hold+`":null}}}`)
	s.awaitJobFinish(held)
	awaitActive()
}
