package policy_test

import (
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

// podOfJob is a Pod that its Job has counted, an hour ago.
func podOfJob() *builders.PodWrapper {
	return builders.MakePod("ci", "a").Created(noon.Add(-2*time.Hour)).ControlledBy("batch/v1", "Job", "build").
		RestartPolicy(corev1.RestartPolicyNever).Phase(corev1.PodSucceeded).Terminated(noon.Add(-time.Hour))
}

func jobWith(podTTL string) *builders.JobWrapper {
	out := builders.MakeJob("ci", "build")
	if podTTL != "" {
		out.Annotation(policy.AnnotationPodTTL, podTTL)
	}
	return out
}

func TestOrderOfPodTTLs(t *testing.T) {
	pods := platform("pods", "ttl-after-finished", "4h")
	pods.NamesKind = true
	all := platform("all", "ttl-after-finished", "5h")
	for name, test := range map[string]struct {
		own       string
		job       *policy.PodCounter
		namespace []string
		policies  []*policy.PlatformPolicy
		want      string
		live      bool
	}{
		"nothing":                           {job: policy.CounterOfJob(jobWith("").Obj()), want: ""},
		"its own":                           {own: "1h", job: policy.CounterOfJob(jobWith("2h").Obj()), namespace: []string{"default-pod-ttl", "3h"}, want: "1h object"},
		"its own never":                     {own: "never", job: policy.CounterOfJob(jobWith("0").Obj()), want: "never object"},
		"its Job's":                         {job: policy.CounterOfJob(jobWith("2h").Obj()), namespace: []string{"default-pod-ttl", "3h"}, policies: []*policy.PlatformPolicy{pods}, want: "2h job/build", live: true},
		"its Job's never":                   {job: policy.CounterOfJob(jobWith("never").Obj()), namespace: []string{"default-pod-ttl", "3h"}, want: "never job/build", live: true},
		"its Job's, unreadable":             {job: policy.CounterOfJob(jobWith("soon").Obj()), namespace: []string{"default-pod-ttl", "3h"}, want: "unusable job/build", live: true},
		"its Job's, above the maximum":      {job: policy.CounterOfJob(jobWith("2h").Obj()), namespace: []string{"max-ttl", "1h"}, want: "unusable job/build", live: true},
		"its Job's, below the minimum":      {job: policy.CounterOfJob(jobWith("0").Obj()), namespace: []string{"min-ttl", "1m"}, want: "unusable job/build", live: true},
		"its Job cannot be read":            {job: policy.UnreadableJob("build", errors.New("forbidden")), namespace: []string{"default-pod-ttl", "3h"}, want: "unusable job/build", live: true},
		"its namespace's":                   {job: policy.CounterOfJob(jobWith("").Obj()), namespace: []string{"default-pod-ttl", "3h"}, policies: []*policy.PlatformPolicy{pods}, want: "3h namespace/ci", live: true},
		"not its namespace's for Jobs":      {job: policy.CounterOfJob(jobWith("").Obj()), namespace: []string{"default-ttl", "3h", "default-ttl-succeeded", "1h"}, want: ""},
		"a policy's that names Pods":        {job: policy.CounterOfJob(jobWith("").Obj()), policies: []*policy.PlatformPolicy{all, pods}, want: "4h policy/pods", live: true},
		"not a policy's for whatever comes": {job: policy.CounterOfJob(jobWith("").Obj()), policies: []*policy.PlatformPolicy{all}, want: ""},
		"a Job that is gone":                {namespace: []string{"default-pod-ttl", "3h"}, want: "3h namespace/ci", live: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOfJob()
			if test.own != "" {
				pod.Annotation(policy.AnnotationTTL, test.own)
			}
			scope := &policy.Scope{Namespace: namespaceOf(test.namespace...), Counter: test.job, Policies: test.policies}
			got := policy.Resolve(policy.FactsOfPod(pod.Obj()), scope)
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
				pod.Annotation(policy.AnnotationTTL, "0")
			}
			facts := policy.FactsOfPod(pod.Obj())
			effective := policy.Resolve(facts, &policy.Scope{Counter: policy.CounterOfJob(test.job)})
			got := policy.Judge(facts, &effective, noon)
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
		unreadable := policy.FactsOfPod(podOfJob().Phase(phase).Annotation(policy.AnnotationTTL, "0").Obj())
		effective := policy.Resolve(unreadable, &policy.Scope{Counter: policy.UnreadableJob("build", errors.New("forbidden"))})
		if got := policy.Judge(unreadable, &effective, noon); got.Action != policy.Keep || got.Err == nil {
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
		"Kubernetes' own":         {jobWith("0").ManagedBy(policy.JobController), ""},
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
					pod.Annotation(policy.AnnotationTTL, "0")
				}
				facts := policy.FactsOfPod(pod.Obj())
				scope := &policy.Scope{Namespace: namespaceOf("default-pod-ttl", "1m"), Counter: policy.CounterOfJob(test.job.Obj())}
				effective := policy.Resolve(facts, scope)
				got := policy.Judge(facts, &effective, noon)
				if got.Reason != test.reason || (got.Action == policy.Delete) != (test.reason == "") || got.Err != nil {
					t.Errorf("%s, %s, with a TTL of its own %t: %s %q %v, want %q", name, phase, own, got.Action, got.Reason, got.Err, test.reason)
				}
				if got.Action == policy.Delete && !got.Live {
					t.Errorf("%s, %s, with a TTL of its own %t: deleted without reading the Job", name, phase, own)
				}
				explained := policy.Explain(facts, scope, policy.Question{Now: noon}).Obstacles(policy.Surroundings{})
				if (len(explained) > 0) != (test.reason != "") || len(explained) > 0 && explained[0].Kind != policy.ObstacleAccounting {
					t.Errorf("%s: explained by %+v", name, explained)
				}
			}
		}
	}
}

func TestCounterOfOwner(t *testing.T) {
	if got, err := policy.CounterOfOwner(nil); got != nil || err != nil {
		t.Errorf("a Job that is gone: %+v, %v", got, err)
	}
	got, err := policy.CounterOfOwner(jobWith("1h").Map())
	if err != nil || got.TTL == nil || got.TTL.Text != "1h" || got.Source.String() != "job/build" {
		t.Errorf("got %+v, %v", got, err)
	}
	broken := jobWith("1h").Map()
	broken["spec"] = "none"
	if _, err := policy.CounterOfOwner(broken); err == nil {
		t.Error("an object that is no Job was read as a Job without settings")
	}
}

// countedPod is an executor that a PodTally has counted, with its driver as owner.
func countedPod() *builders.PodWrapper {
	return builders.MakePod("ci", "a").Created(noon.Add(-2*time.Hour)).ControlledBy("v1", "Pod", "driver").Annotation(policy.AnnotationCountedBy, "uid").
		RestartPolicy(corev1.RestartPolicyNever).Phase(corev1.PodFailed).Terminated(noon.Add(-time.Hour))
}

func tallyWith(ttl string) *policy.PodCounter {
	out := &policy.PodCounter{Source: policy.Source{Level: policy.LevelTally, Name: "spark"}}
	if ttl != "" {
		out.TTL = policy.CounterOfJob(jobWith(ttl).Obj()).TTL
	}
	return out
}

func TestOrderOfTTLsOfCountedPods(t *testing.T) {
	for name, test := range map[string]struct {
		pod       *builders.PodWrapper
		tally     *policy.PodCounter
		namespace []string
		want      string
	}{
		"its own":                          {countedPod().Annotation(policy.AnnotationTTL, "1h"), tallyWith("2h"), []string{"default-pod-ttl", "3h"}, "1h object"},
		"its tally's":                      {countedPod(), tallyWith("2h"), []string{"default-pod-ttl", "3h"}, "2h tally/spark"},
		"its tally's never":                {countedPod(), tallyWith("never"), []string{"default-pod-ttl", "3h"}, "never tally/spark"},
		"its tally cannot be read":         {countedPod(), policy.UnreadableCounter(policy.FactsOfPod(countedPod().Obj()), errors.New("forbidden")), []string{"default-pod-ttl", "3h"}, "unusable tally"},
		"its namespace's":                  {countedPod(), tallyWith(""), []string{"default-pod-ttl", "3h"}, "3h namespace/ci"},
		"not its namespace's for the rest": {countedPod(), tallyWith(""), []string{"default-ttl", "3h"}, ""},
		"its tally is gone":                {countedPod(), nil, []string{"default-pod-ttl", "3h"}, ""},
		"protected":                        {countedPod().Annotation(policy.AnnotationProtect, "true"), tallyWith(""), []string{"default-pod-ttl", "3h"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := policy.Resolve(policy.FactsOfPod(test.pod.Obj()), &policy.Scope{Namespace: namespaceOf(test.namespace...), Counter: test.tally})
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
		Terminated(noon.Add(-time.Hour)).Annotation(policy.AnnotationTTL, "0").Finalizer(policy.FinalizerTally)
	facts := policy.FactsOfPod(pod.Obj())
	effective := policy.Resolve(facts, &policy.Scope{})
	if got := policy.Judge(facts, &effective, noon); got.Action != policy.Keep || got.Reason != "its PodTally has not counted it" || got.Err != nil {
		t.Errorf("got %s %q %v", got.Action, got.Reason, got.Err)
	}
	explained := policy.Explain(facts, &policy.Scope{}, policy.Question{Now: noon}).Obstacles(policy.Surroundings{})
	if len(explained) != 1 || explained[0].Kind != policy.ObstacleAccounting || !explained[0].Stops {
		t.Errorf("explained by %+v", explained)
	}
	for _, tallied := range []bool{false, true} {
		fresh := policy.FactsOfPod(builders.MakePod("ci", "a").Obj())
		scope := &policy.Scope{Namespace: namespaceOf("default-pod-ttl", "1h"), Creating: true, Tallied: tallied}
		effective := policy.Resolve(fresh, scope)
		if got := policy.Defaults(fresh, &effective, scope); (len(got) == 0) != tallied {
			t.Errorf("tallied %t: filled in %v", tallied, got)
		}
	}
}
