package follow

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// changedJobs has a follower of Jobs note who is to be judged again.
func changedJobs() (*Jobs, func() []string) {
	j, changed := NewJobs(nil), []string(nil)
	j.OnChange(func(namespace string, job types.UID, labelled bool) {
		changed = append(changed, namespace+"/"+string(job)+map[bool]string{true: " by label"}[labelled])
	})
	return j, func() []string {
		out := changed
		changed = nil
		return out
	}
}

func jobSeen(version int, podTTL string, succeeded int32) *batchv1.Job {
	job := builders.MakeJob("ci", "build").UID("build").ResourceVersion(strconv.Itoa(version))
	if podTTL != "" {
		job.Annotation(wellknown.AnnotationPodTTL, podTTL)
	}
	out := job.Obj()
	out.Status.Succeeded = succeeded
	return out
}

func said(j *Jobs) string {
	counter := j.PodCounter(policy.FactsOfPod(builders.MakePod("ci", "a").ControlledBy("batch/v1", "Job", "build").Obj()))
	switch {
	case counter == nil:
		return ""
	case counter.TTL == nil:
		return "set"
	default:
		return counter.TTL.Text
	}
}

// TestLongTextsOfJobsAreCut (S9): a tenant's annotation of 250 kB is not kept, and the longest valid
// text is.
func TestLongTextsOfJobsAreCut(t *testing.T) {
	for _, text := range []string{strings.Repeat("1h", 125_000), strings.Repeat("0", lifetime.MaxDurationText-2) + "1h"} {
		j, _ := changedJobs()
		j.See(jobSeen(1, text, 1))
		if got := said(j); len(got) > 1000 || got != text && len(text) <= lifetime.MaxDurationText {
			t.Errorf("of %d bytes the follower keeps %d", len(text), len(got))
		}
	}
}

func TestJobsThatSaySomethingNew(t *testing.T) {
	j, changed := changedJobs()
	expect := func(when, want string, again ...string) {
		t.Helper()
		if got := said(j); got != want {
			t.Errorf("%s: it says %q, want %q", when, got, want)
		}
		if got := changed(); !slices.Equal(got, again) {
			t.Errorf("%s: judged again %q, want %q", when, got, again)
		}
	}
	j.See(jobSeen(1, "", 3))
	expect("says nothing", "")
	j.See(jobSeen(2, "1h", 3))
	expect("says something, and has counted Pods", "1h", "ci/build by label")
	j.See(jobSeen(3, "1h", 4))
	expect("the same again", "1h")
	j.See(jobSeen(2, "", 3))
	expect("an older state from a list", "1h")
	j.See(jobSeen(4, "never", 4))
	expect("never", "never", "ci/build by label")
	j.See(jobSeen(5, "", 4))
	expect("nothing any more", "", "ci/build by label")
	j.See(jobSeen(6, "1m", 0))
	expect("nothing is counted yet", "1m")
	running := jobSeen(7, "1m", 0)
	running.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
	j.See(running)
	expect("the first that is being counted: its watch may have come before this one", "1m", "ci/build by label")
	j.See(jobSeen(8, "1m", 1))
	expect("counted", "1m")
	manual := jobSeen(9, "2m", 1)
	manual.Spec.ManualSelector = ptr.To(true)
	j.See(manual)
	expect("its Pods need not have the label", "2m", "ci/build")
	fails := jobSeen(10, "", 1)
	fails.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: batchv1.PodFailurePolicyActionFailJob}}}
	j.See(fails)
	expect("it may fail by its Pods", "set", "ci/build by label")
	fails = fails.DeepCopy()
	fails.ResourceVersion, fails.Status.Conditions = "11", []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True"}}
	j.See(fails)
	expect("it has failed: its failed Pods need not stay", "", "ci/build by label")
	managed := jobSeen(12, "", 0)
	managed.Spec.ManagedBy = ptr.To("example.com/batch")
	j.See(managed)
	expect("another controller manages it, and may count nothing", "set")
	managed = managed.DeepCopy()
	managed.ResourceVersion, managed.Status.Conditions = "13", []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}
	j.See(managed)
	expect("that has finished it: its Pods need not have the label", "", "ci/build")
	j.See(jobSeen(14, "1h", 1))
	changed()
	j.Forget("build")
	expect("it is gone", "")
}
