package policy_test

import (
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// podOfJob is a Pod that its Job has counted, an hour ago.
func podOfJob() *builders.PodWrapper {
	return builders.MakePod("ci", "a").Created(noon.Add(-2*time.Hour)).ControlledBy("batch/v1", "Job", "build").RestartPolicy(corev1.RestartPolicyNever).Phase(corev1.PodSucceeded).Terminated(noon.Add(-time.Hour))
}

func jobWith(podTTL string) *builders.JobWrapper {
	out := builders.MakeJob("ci", "build")
	if podTTL != "" {
		out.Annotation(wellknown.AnnotationPodTTL, podTTL)
	}
	return out
}

func TestOrderOfPodTTLs(t *testing.T) {
	pods := platform("pods", "ttl-after-finished", "4h")
	pods.NamesKind = true
	all := platform("all", "ttl-after-finished", "5h")
	for name, test := range map[string]struct {
		own       string
		job       *resolution.PodCounter
		namespace []string
		policies  []*resolution.PlatformPolicy
		want      string
		live      bool
	}{
		"its own":                           {own: "1h", job: resolution.CounterOfJob(jobWith("2h").Obj()), namespace: []string{"default-pod-ttl", "3h"}, want: "1h object"},
		"its Job's":                         {job: resolution.CounterOfJob(jobWith("2h").Obj()), namespace: []string{"default-pod-ttl", "3h"}, policies: []*resolution.PlatformPolicy{pods}, want: "2h job/build", live: true},
		"its Job's never":                   {job: resolution.CounterOfJob(jobWith("never").Obj()), namespace: []string{"default-pod-ttl", "3h"}, want: "never job/build", live: true},
		"its Job's, unreadable":             {job: resolution.CounterOfJob(jobWith("soon").Obj()), namespace: []string{"default-pod-ttl", "3h"}, want: "unusable job/build", live: true},
		"its Job's, above the maximum":      {job: resolution.CounterOfJob(jobWith("2h").Obj()), namespace: []string{"max-ttl", "1h"}, want: "unusable job/build", live: true},
		"its Job's, below the minimum":      {job: resolution.CounterOfJob(jobWith("0").Obj()), namespace: []string{"min-ttl", "1m"}, want: "unusable job/build", live: true},
		"its Job cannot be read":            {job: resolution.UnreadableJob("build", errors.New("forbidden")), namespace: []string{"default-pod-ttl", "3h"}, want: "unusable job/build", live: true},
		"its namespace's":                   {job: resolution.CounterOfJob(jobWith("").Obj()), namespace: []string{"default-pod-ttl", "3h"}, policies: []*resolution.PlatformPolicy{pods}, want: "3h namespace/ci", live: true},
		"not its namespace's for Jobs":      {job: resolution.CounterOfJob(jobWith("").Obj()), namespace: []string{"default-ttl", "3h", "default-ttl-succeeded", "1h"}, want: ""},
		"a policy's that names Pods":        {job: resolution.CounterOfJob(jobWith("").Obj()), policies: []*resolution.PlatformPolicy{all, pods}, want: "4h policy/pods", live: true},
		"not a policy's for whatever comes": {job: resolution.CounterOfJob(jobWith("").Obj()), policies: []*resolution.PlatformPolicy{all}, want: ""},
		"a Job that is gone":                {namespace: []string{"default-pod-ttl", "3h"}, want: "3h namespace/ci", live: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOfJob()
			if test.own != "" {
				pod.Annotation(wellknown.AnnotationTTL, test.own)
			}
			scope := &resolution.Scope{Namespace: namespaceOf(test.namespace...), Counter: test.job, Policies: test.policies}
			got := resolution.Resolve(policy.FactsOfPod(pod.Obj()), scope)
			if text := valueText(got.Succeeded); text != test.want || got.Succeeded.Live != test.live {
				t.Errorf("got %q, live %t; want %q, live %t", text, got.Succeeded.Live, test.want, test.live)
			}
			if got.Failed != got.Succeeded {
				t.Errorf("another TTL once failed: %+v", got.Failed)
			}
		})
	}
}

// The Job controller may account for a failed Pod in one sync, and find it again in the next to
// fail the Job by its podFailurePolicy (S5).
func TestFailedPodsOfAJobThatTheyMayFail(t *testing.T) {
	failJob := func(action batchv1.PodFailurePolicyAction, conditions ...batchv1.JobConditionType) *batchv1.Job {
		job := jobWith("0")
		for _, kind := range conditions {
			job.Condition(kind, corev1.ConditionTrue, noon)
		}
		out := job.Obj()
		out.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: batchv1.PodFailurePolicyActionIgnore}, {Action: action}}}
		return out
	}
	kept := "Job build may fail by its podFailurePolicy: failed Pods stay until it has finished"
	for name, test := range map[string]struct {
		job    *batchv1.Job
		phase  corev1.PodPhase
		reason string
	}{
		"no such policy":     {jobWith("0").Obj(), corev1.PodFailed, ""},
		"it ignores":         {failJob(batchv1.PodFailurePolicyActionIgnore), corev1.PodFailed, ""},
		"it counts":          {failJob(batchv1.PodFailurePolicyActionCount), corev1.PodFailed, ""},
		"it fails the index": {failJob(batchv1.PodFailurePolicyActionFailIndex), corev1.PodFailed, ""},
		"it fails the Job":   {failJob(batchv1.PodFailurePolicyActionFailJob), corev1.PodFailed, kept},
		"a Pod that did not": {failJob(batchv1.PodFailurePolicyActionFailJob), corev1.PodSucceeded, ""},
		"it is decided":      {failJob(batchv1.PodFailurePolicyActionFailJob, batchv1.JobFailureTarget), corev1.PodFailed, ""},
		"it has failed":      {failJob(batchv1.PodFailurePolicyActionFailJob, batchv1.JobFailed), corev1.PodFailed, ""},
		"it has succeeded":   {failJob(batchv1.PodFailurePolicyActionFailJob, batchv1.JobSuccessCriteriaMet), corev1.PodFailed, ""},
		"it is suspended":    {failJob(batchv1.PodFailurePolicyActionFailJob, batchv1.JobSuspended), corev1.PodFailed, kept},
	} {
		for _, own := range []bool{false, true} {
			pod := podOfJob().Phase(test.phase)
			if own {
				pod.Annotation(wellknown.AnnotationTTL, "0")
			}
			facts := policy.FactsOfPod(pod.Obj())
			effective := resolution.Resolve(facts, &resolution.Scope{Counter: resolution.CounterOfJob(test.job)})
			got := judging.Judge(facts, &effective, noon)
			if got.Reason != test.reason || (got.Action == policy.Keep) != (test.reason != "") || got.Err != nil {
				t.Errorf("%s, with a TTL of its own %t: %s %q %v, want %q", name, own, got.Action, got.Reason, got.Err, test.reason)
			}
			// The Job is read again before the DELETE, whose own TTL decides though.
			if got.Action == policy.Delete && !got.Live && test.phase == corev1.PodFailed {
				t.Errorf("%s: deleted without reading the Job", name)
			}
		}
	}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} { // The first, too: another controller may manage the Job.
		unreadable := policy.FactsOfPod(podOfJob().Phase(phase).Annotation(wellknown.AnnotationTTL, "0").Obj())
		effective := resolution.Resolve(unreadable, &resolution.Scope{Counter: resolution.UnreadableJob("build", errors.New("forbidden"))})
		if got := judging.Judge(unreadable, &effective, noon); got.Action != policy.Keep || got.Err == nil {
			t.Errorf("%s, its Job cannot be read: %+v", phase, got)
		}
	}
}

// Nothing shows whether another controller than Kubernetes' own has counted a Pod, before it has
// finished the Job (S5). Its Pods never need the tracking finalizer.
func TestPodsOfAJobManagedByAnother(t *testing.T) {
	kept := "Job build is managed by example.com/batch, which may not have counted it: its Pods stay until it has finished"
	for name, test := range map[string]struct {
		job    *builders.JobWrapper
		reason string
	}{
		"no other counter":        {jobWith("0"), ""},
		"Kubernetes' own":         {jobWith("0").ManagedBy(wellknown.JobController), ""},
		"another":                 {jobWith("0").ManagedBy("example.com/batch"), kept},
		"it announces the end":    {jobWith("0").ManagedBy("example.com/batch").Condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, noon), kept},
		"it announces a failure":  {jobWith("0").ManagedBy("example.com/batch").Condition(batchv1.JobFailureTarget, corev1.ConditionTrue, noon), kept},
		"it is not complete":      {jobWith("0").ManagedBy("example.com/batch").Condition(batchv1.JobComplete, corev1.ConditionFalse, noon), kept},
		"it has succeeded":        {jobWith("0").ManagedBy("example.com/batch").Condition(batchv1.JobComplete, corev1.ConditionTrue, noon), ""},
		"it has failed":           {jobWith("0").ManagedBy("example.com/batch").Condition(batchv1.JobFailed, corev1.ConditionTrue, noon), ""},
		"the namespace's default": {jobWith("").ManagedBy("example.com/batch"), kept},
	} {
		for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
			for _, own := range []bool{false, true} {
				pod := podOfJob().Phase(phase)
				if own {
					pod.Annotation(wellknown.AnnotationTTL, "0")
				}
				facts := policy.FactsOfPod(pod.Obj())
				scope := &resolution.Scope{Namespace: namespaceOf("default-pod-ttl", "1m"), Counter: resolution.CounterOfJob(test.job.Obj())}
				effective := resolution.Resolve(facts, scope)
				got := judging.Judge(facts, &effective, noon)
				if got.Reason != test.reason || (got.Action == policy.Delete) != (test.reason == "") || got.Err != nil {
					t.Errorf("%s, %s, with a TTL of its own %t: %s %q %v, want %q", name, phase, own, got.Action, got.Reason, got.Err, test.reason)
				}
				if got.Action == policy.Delete && !got.Live {
					t.Errorf("%s, %s, with a TTL of its own %t: deleted without reading the Job", name, phase, own)
				}
				explained := judging.Explain(facts, scope, judging.Question{Now: noon}).Obstacles(judging.Surroundings{})
				if (len(explained) > 0) != (test.reason != "") || len(explained) > 0 && explained[0].Kind != judging.ObstacleAccounting {
					t.Errorf("%s: explained by %+v", name, explained)
				}
			}
		}
	}
}

func TestCounterOfOwner(t *testing.T) {
	if got, err := resolution.CounterOfOwner(nil); got != nil || err != nil {
		t.Errorf("a Job that is gone: %+v, %v", got, err)
	}
	got, err := resolution.CounterOfOwner(jobWith("1h").Map())
	if err != nil || got.TTL == nil || got.TTL.Text != "1h" || got.Source.String() != "job/build" {
		t.Errorf("got %+v, error %v; want 1h of job/build", got, err)
	}
	broken := jobWith("1h").Map()
	broken["spec"] = "none"
	if _, err := resolution.CounterOfOwner(broken); err == nil {
		t.Error("an object that is no Job was read as a Job without settings")
	}
}

// countedPod is an executor that a PodTally has counted, with its driver as owner.
func countedPod() *builders.PodWrapper {
	return builders.MakePod("ci", "a").Created(noon.Add(-2*time.Hour)).ControlledBy("v1", "Pod", "driver").Annotation(wellknown.AnnotationCountedBy, "uid").
		RestartPolicy(corev1.RestartPolicyNever).Phase(corev1.PodFailed).Terminated(noon.Add(-time.Hour))
}

func tallyWith(ttl string) *resolution.PodCounter {
	out := &resolution.PodCounter{Source: lifetime.Source{Level: lifetime.LevelTally, Name: "spark"}}
	if ttl != "" {
		out.TTL = resolution.CounterOfJob(jobWith(ttl).Obj()).TTL
	}
	return out
}

func TestOrderOfTTLsOfCountedPods(t *testing.T) {
	for name, test := range map[string]struct {
		pod       *builders.PodWrapper
		tally     *resolution.PodCounter
		namespace []string
		want      string
	}{
		"its own":                          {countedPod().Annotation(wellknown.AnnotationTTL, "1h"), tallyWith("2h"), []string{"default-pod-ttl", "3h"}, "1h object"},
		"its tally's":                      {countedPod(), tallyWith("2h"), []string{"default-pod-ttl", "3h"}, "2h tally/spark"},
		"its tally's never":                {countedPod(), tallyWith("never"), []string{"default-pod-ttl", "3h"}, "never tally/spark"},
		"its tally cannot be read":         {countedPod(), resolution.UnreadableCounter(policy.FactsOfPod(countedPod().Obj()), errors.New("forbidden")), []string{"default-pod-ttl", "3h"}, "unusable tally"},
		"its namespace's":                  {countedPod(), tallyWith(""), []string{"default-pod-ttl", "3h"}, "3h namespace/ci"},
		"not its namespace's for the rest": {countedPod(), tallyWith(""), []string{"default-ttl", "3h"}, ""},
		"its tally is gone":                {countedPod(), nil, []string{"default-pod-ttl", "3h"}, ""},
		"protected":                        {countedPod().Annotation(wellknown.AnnotationProtect, "true"), tallyWith(""), []string{"default-pod-ttl", "3h"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := resolution.Resolve(policy.FactsOfPod(test.pod.Obj()), &resolution.Scope{Namespace: namespaceOf(test.namespace...), Counter: test.tally})
			if text := valueText(got.Failed); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}

// A Pod that its tally has yet to count is kept whatever its own TTL (S7), and is given no default
// that would come before the tally's TTL.
func TestPodThatIsToBeCounted(t *testing.T) {
	pod := builders.MakePod("ci", "a").Created(noon.Add(-2*time.Hour)).RestartPolicy(corev1.RestartPolicyNever).Phase(corev1.PodSucceeded).
		Terminated(noon.Add(-time.Hour)).Annotation(wellknown.AnnotationTTL, "0").Finalizer(wellknown.FinalizerTally)
	facts := policy.FactsOfPod(pod.Obj())
	effective := resolution.Resolve(facts, &resolution.Scope{})
	if got := judging.Judge(facts, &effective, noon); got.Action != policy.Keep || got.Reason != "its PodTally has not counted it" || got.Err != nil {
		t.Errorf("verdict %s, %q, error %v; want it kept, as not counted yet", got.Action, got.Reason, got.Err)
	}
	explained := judging.Explain(facts, &resolution.Scope{}, judging.Question{Now: noon}).Obstacles(judging.Surroundings{})
	if len(explained) != 1 || explained[0].Kind != judging.ObstacleAccounting || !explained[0].Stops {
		t.Errorf("explained by %+v", explained)
	}
	for _, tallied := range []bool{false, true} {
		fresh := policy.FactsOfPod(builders.MakePod("ci", "a").Obj())
		scope := &resolution.Scope{Namespace: namespaceOf("default-pod-ttl", "1h"), Creating: true, Tallied: tallied}
		effective := resolution.Resolve(fresh, scope)
		if got := resolution.Defaults(fresh, &effective, scope); (len(got) == 0) != tallied {
			t.Errorf("tallied %t: filled in %v", tallied, got)
		}
	}
}
