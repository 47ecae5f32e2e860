package policy_test

import (
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

// The time arithmetic that the in-tree TTL controller's and JobSet's own tests expect, and what the
// contract adds.
func TestJudge(t *testing.T) {
	job := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)) }
	ago := func(seconds int) time.Time { return noon.Add(-time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		job    *builders.JobWrapper
		action policy.Action
		in     time.Duration
		reason string
		err    string
	}{
		"suspended, unfinished":             {job: job().TTL(0).Suspend(true), reason: "is not finished"},
		"Complete is Unknown":               {job: job().TTL(0).Condition(batchv1.JobComplete, corev1.ConditionUnknown, ago(60)), reason: "is not finished"},
		"unfinished, TTL 100":               {job: job().TTL(100), reason: "is not finished"},
		"finished, no TTL":                  {job: job().Complete(noon), reason: "has no TTL"},
		"finished now, TTL 0":               {job: job().TTL(0).Complete(noon), action: policy.Delete},
		"finished now, TTL 10":              {job: job().TTL(10).Complete(noon), action: policy.Wait, in: 10 * time.Second},
		"finished 10s ago, TTL 15":          {job: job().TTL(15).Complete(ago(10)), action: policy.Wait, in: 5 * time.Second},
		"finished 10s ago, TTL 5":           {job: job().TTL(5).Complete(ago(10)), action: policy.Delete, in: -5 * time.Second},
		"due in this very second":           {job: job().TTL(5).Complete(ago(5)), action: policy.Delete},
		"failed 10s ago, TTL 5":             {job: job().TTL(5).Failed(ago(10)), action: policy.Delete, in: -5 * time.Second},
		"suspended, finished":               {job: job().TTL(5).Suspend(true).Complete(ago(10)), action: policy.Delete, in: -5 * time.Second},
		"finish time in the future, TTL 10": {job: job().TTL(10).Complete(ago(-30)), action: policy.Wait, in: 40 * time.Second},
		"longest TTL":                       {job: job().TTL(2147483647).Complete(noon), action: policy.Wait, in: lifetime.MaxDuration},
		"SuccessCriteriaMet is no end":      {job: job().TTL(0).Condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, ago(60)), reason: "is not finished"},
		"FailureTarget is no end":           {job: job().TTL(0).Condition(batchv1.JobFailureTarget, corev1.ConditionTrue, ago(60)), reason: "is not finished"},
		"FailureTarget, then Failed":        {job: job().TTL(10).Condition(batchv1.JobFailureTarget, corev1.ConditionTrue, ago(60)).Failed(ago(4)), action: policy.Wait, in: 6 * time.Second},
		"Complete is False":                 {job: job().TTL(0).Condition(batchv1.JobComplete, corev1.ConditionFalse, ago(60)), reason: "is not finished"},
		"being deleted":                     {job: job().TTL(0).Complete(ago(60)).Deleting(noon), reason: "is being deleted already"},
		"protected":                         {job: job().TTL(0).Complete(ago(60)).Annotation(wellknown.AnnotationProtect, "true"), reason: "is protected by annotation curfew.dev/protect"},
		"protected, somehow":                {job: job().TTL(0).Complete(ago(60)).Annotation(wellknown.AnnotationProtect, ""), reason: "is protected by annotation curfew.dev/protect"},
		"not protected":                     {job: job().TTL(60).Complete(ago(60)).Annotation(wellknown.AnnotationProtect, "false"), action: policy.Delete},
		"never":                             {job: job().Annotation(wellknown.AnnotationTTL, "never").TTL(0).Complete(ago(60)), reason: "its TTL is never"},
		"by outcome":                        {job: job().TTL(0).Annotation(wellknown.AnnotationTTLFailed, "70").Failed(ago(60)), action: policy.Wait, in: 10 * time.Second},
		"the other outcome":                 {job: job().TTL(60).Annotation(wellknown.AnnotationTTLFailed, "70").Complete(ago(60)), action: policy.Delete},
		"unreadable": {
			job: job().TTL(0).Annotation(wellknown.AnnotationTTL, "soon").Complete(ago(60)), reason: "its TTL cannot be used",
			err: at("ttl-after-finished") + `: "soon" is not a duration: ` + fix + ", or never",
		},
		"negative":                  {job: job().TTL(-1).Complete(ago(60)), reason: "its TTL cannot be used", err: `spec.ttlSecondsAfterFinished: "-1" is negative: a duration is 0 or more`},
		"no transition time":        {job: job().TTL(5).Complete(time.Time{}), reason: "does not say when it finished", err: noFinishTime},
		"finished at the epoch":     {job: job().TTL(5).Complete(time.Unix(0, 0)), reason: "does not say when it finished", err: noFinishTime},
		"finished before 1970":      {job: job().TTL(5).Complete(time.Unix(-1, 0)), reason: "does not say when it finished", err: noFinishTime},
		"no time and no TTL":        {job: job().Complete(time.Time{}), reason: "has no TTL"},
		"no time, written down":     {job: job().TTL(5).Complete(time.Time{}).Annotation(wellknown.AnnotationFinishedAt, "2026-12-24T11:59:57Z"), reason: "does not say when it finished", err: noFinishTime},
		"finished before it was":    {job: job().TTL(5).Created(ago(2)).Complete(ago(3600)), action: policy.Wait, in: 3 * time.Second},
		"written down, and its own": {job: job().TTL(5).Complete(noon).Annotation(wellknown.AnnotationFinishedAt, "2020-12-24T11:59:57Z"), action: policy.Wait, in: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfJob(test.job.Obj())
			effective := resolution.Resolve(facts, &resolution.Scope{})
			got := judging.Judge(facts, &effective, noon)
			if got.Action != test.action || got.Reason != test.reason || errText(got.Err) != test.err {
				t.Errorf("%s, %q, %v; want %s, %q, %q", got.Action, got.Reason, got.Err, test.action, test.reason, test.err)
			}
			if timed := got.Action == policy.Wait || got.Action == policy.Delete; timed {
				if d := got.Expiry.Sub(noon); d != test.in || got.Trigger != policy.TriggerTTL || got.Source.String() != "object" {
					t.Errorf("due in %v by %s of %s, want in %v", d, got.Trigger, got.Source, test.in)
				}
			} else if !got.Expiry.IsZero() {
				t.Errorf("expiry %v beside %s", got.Expiry, got.Action)
			}
		})
	}
}

func TestJudgeOfPods(t *testing.T) {
	pod := func() *builders.PodWrapper {
		return builders.MakePod("ci", "a").Annotation(wellknown.AnnotationTTL, "10").Phase(corev1.PodSucceeded)
	}
	for name, test := range map[string]struct {
		pod    *builders.PodWrapper
		action policy.Action
		reason string
	}{
		"no phase":                   {pod().Phase("").Terminated(noon.Add(-time.Hour)), policy.Keep, "is not finished"},
		"running":                    {pod().Phase(corev1.PodRunning).Terminated(noon.Add(-time.Hour)), policy.Keep, "is not finished"},
		"unknown phase":              {pod().Phase(corev1.PodUnknown).Terminated(noon.Add(-time.Hour)), policy.Keep, "is not finished"},
		"due":                        {pod().Terminated(noon.Add(-time.Hour)), policy.Delete, ""},
		"not accounted for":          {pod().Terminated(noon.Add(-time.Hour)).Finalizer(wellknown.FinalizerJobTracking), policy.Keep, "the Job controller has not accounted for it"},
		"not accounted for, no time": {pod().Finalizer(wellknown.FinalizerJobTracking), policy.Keep, "the Job controller has not accounted for it"},
		"a foreign finalizer":        {pod().Terminated(noon.Add(-time.Hour)).Finalizer("example.com/wait"), policy.Delete, ""},
		"restarts always":            {pod().Terminated(noon.Add(-time.Hour)).RestartPolicy(corev1.RestartPolicyAlways), policy.Keep, "restartPolicy is Always"},
		"restart policy absent":      {pod().Terminated(noon.Add(-time.Hour)).RestartPolicy(""), policy.Keep, "restartPolicy is Always"},
		"no time":                    {pod(), policy.RecordFinish, "does not say when it finished"},
		"ended before it was":        {pod().Created(noon.Add(-9 * time.Second)).Terminated(time.Date(2001, 1, 1, 0, 0, 9, 0, time.UTC)), policy.Wait, ""},
		"noted before it was":        {pod().Created(noon).Annotation(wellknown.AnnotationFinishedAt, "2026-12-24T11:59:57Z"), policy.RecordFinish, "does not say when it finished"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfPod(test.pod.Obj())
			effective := resolution.Resolve(facts, &resolution.Scope{})
			if got := judging.Judge(facts, &effective, noon); got.Action != test.action || got.Reason != test.reason {
				t.Errorf("%s, %q; want %s, %q", got.Action, got.Reason, test.action, test.reason)
			}
		})
	}
}

const noFinishTime = "its status has no usable finish time (missing, zero or the epoch): set it there, or delete the object"

// What the controller needs to know beyond the instant travels in the verdict.
func TestVerdictCarriesItsMarks(t *testing.T) {
	facts := policy.FactsOfJob(builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).Complete(noon.Add(-time.Minute)).Obj())
	scope := &resolution.Scope{Namespace: namespaceSince(noon, "default-ttl", "5", "backfill", "true", "mode", "dry-run")}
	effective := resolution.Resolve(facts, scope)
	got := judging.Judge(facts, &effective, noon)
	if got.Action != policy.Delete || !got.Live || !got.Backfill || !got.DryRun || got.Source.String() != "namespace/ci" {
		t.Errorf("got %+v, want a live, backfilled, dry-run deletion from namespace/ci", got)
	}
	untimed := policy.FactsOfPod(builders.MakePod("ci", "a").Created(noon.Add(-time.Hour)).Annotation(wellknown.AnnotationTTL, "0").Phase(corev1.PodFailed).Obj())
	effective = resolution.Resolve(untimed, scope)
	if got := judging.Judge(untimed, &effective, noon); got.Action != policy.RecordFinish || !got.DryRun {
		t.Errorf("got %+v, want record-finish that knows of dry-run", got)
	}
}

// An object whose state cannot be read is kept (S6).
func TestJudgeOfUnreadableState(t *testing.T) {
	object := builders.MakeJob("ci", "a").TTL(0).Complete(noon.Add(-time.Hour)).Map()
	object["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["lastTransitionTime"] = "yesterday"
	facts := policy.FactsOfObject(policy.JobProfile, object)
	effective := resolution.Resolve(facts, &resolution.Scope{})
	got := judging.Judge(facts, &effective, noon)
	if got.Action != policy.Keep || got.Reason != "its state cannot be read" || got.Err == nil {
		t.Errorf("got %+v, want keep with an error", got)
	}
}

// S6: a missing start time is no reason to fail an object that has just begun.
func TestTheEpochIsNoStart(t *testing.T) {
	job := builders.MakeJob("ci", "a").Deadline(5).Started(time.Unix(0, 0))
	for reader, facts := range map[string]*policy.Facts{"typed": policy.FactsOfJob(job.Obj()), "generic": policy.FactsOfObject(policy.JobProfile, job.Map())} {
		effective := resolution.Resolve(facts, &resolution.Scope{})
		if got := judging.JudgeDeadline(facts, &effective, 0, noon); got.Action != policy.Keep || got.Reason != "has not started" {
			t.Errorf("%s: %s, %q; want it kept", reader, got.Action, got.Reason)
		}
	}
}
