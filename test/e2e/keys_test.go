package e2e

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// What the keys of an object do at admission, on the built-in kinds. That they are carried out is
// in expiry_test.go.

const readable = "use seconds (90) or units s, m, h, d, w (1h30m, 7d)"

// A value that cannot be read is refused, wherever it stands.
func TestObjectValues(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationMaxDeadline, "1d") // so that deadlines are looked at
	in := func(key string) string { return "metadata.annotations[" + key + "]: " }
	const jobs, pods = "validate.curfew.dev", "validate-pods.curfew.dev"
	templated := cronJob("cron")
	templated.Spec.JobTemplate.Annotations = map[string]string{wellknown.AnnotationTTL: "soon", wellknown.AnnotationProtect: "1"}
	s.creates(
		row{job("all", annotated(wellknown.AnnotationTTL, "-1")), denied(jobs, in(wellknown.AnnotationTTL)+`"-1" is negative: a duration is 0 or more, or never`)},
		row{job("succeeded", annotated(wellknown.AnnotationTTLSucceeded, "1y")), denied(jobs, in(wellknown.AnnotationTTLSucceeded)+
			`"1y" is not a duration: unit "y" is unknown; `+readable+`, or never`)},
		row{job("failed", annotated(wellknown.AnnotationTTLFailed, "")), denied(jobs, in(wellknown.AnnotationTTLFailed)+`is empty: `+readable+`, or never`)},
		row{job("protected", annotated(wellknown.AnnotationProtect, "yes")), denied(jobs, in(wellknown.AnnotationProtect)+
			`"yes" is neither "true" nor "false": use one of them`)},
		row{job("zero", limited(0)), denied(jobs, `spec.activeDeadlineSeconds: "0" is below 1: a deadline is 1s or more`)},
		row{pod("pod", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "1h30"), denied(pods, in(wellknown.AnnotationTTL)+
			`"1h30" is not a duration: `+readable+`, or never`)},
		row{templated, denied(jobs, "spec.jobTemplate."+in(wellknown.AnnotationTTL)+`"soon" is not a duration: `+readable+`, or never; `+
			"spec.jobTemplate."+in(wellknown.AnnotationProtect)+`"1" is neither "true" nor "false": use one of them`)},
		// As they may be written: seconds, sums, fractions, the units of days and weeks, and never.
		row{job("fine", annotated(wellknown.AnnotationTTL, "90"), annotated(wellknown.AnnotationTTLSucceeded, "1h30m"),
			annotated(wellknown.AnnotationTTLFailed, "never"), annotated(wellknown.AnnotationProtect, "false"), limited(time.Second)), ""},
		row{job("long", annotated(wellknown.AnnotationTTL, "2w"), annotated(wellknown.AnnotationTTLSucceeded, "1.5h")), ""},
	)
	for name, want := range map[string]string{"fine": "object", "long": "object"} {
		if got := s.getJob(name).Annotations[wellknown.AnnotationTTLSource]; got != want {
			t.Errorf("ttl-source of %s is %q, want %q", name, got, want)
		}
	}
}

// The native field has a second reader: an annotation that would keep the object for longer is
// refused, for each outcome.
func TestAnnotationsBesideTheNativeField(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const webhook = "validate-marked.curfew.dev"
	refused := func(key, value string) row {
		text := value
		return row{job("refused", native(time.Hour), annotated(key, value)), denied(webhook, "metadata.annotations["+key+"]: "+text+
			" is longer than spec.ttlSecondsAfterFinished 3600 (1h), which the Job's own controller acts on first: remove one")}
	}
	inCron := cronJob("cron")
	native(time.Hour)(&batchv1.Job{Spec: inCron.Spec.JobTemplate.Spec})
	inCron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = new(int32)
	*inCron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = 3600
	inCron.Spec.JobTemplate.Annotations = map[string]string{wellknown.AnnotationTTL: "never"}
	s.creates(
		refused(wellknown.AnnotationTTL, "never"), refused(wellknown.AnnotationTTL, "1h1s"),
		refused(wellknown.AnnotationTTLSucceeded, "1d"), refused(wellknown.AnnotationTTLFailed, "never"),
		row{inCron, denied(webhook, "spec.jobTemplate.metadata.annotations["+wellknown.AnnotationTTL+"]: never is longer than "+
			"spec.jobTemplate.spec.ttlSecondsAfterFinished 3600 (1h), which the Job's own controller acts on first: remove one")},
		row{job("shorter", native(time.Hour), annotated(wellknown.AnnotationTTLSucceeded, "10m"), annotated(wellknown.AnnotationTTLFailed, "1h")), ""},
		row{job("protected", native(time.Hour), annotated(wellknown.AnnotationProtect, "true"), inTemplate(hold, "true")), warned(
			"spec.ttlSecondsAfterFinished: the Job's own controller deletes by this field, whatever curfew.dev/protect says: remove one")},
	)
}

// An annotation that does nothing is told so, or its author believes that it does.
func TestAnnotationsWithoutEffect(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	cron := cronJob("cron")
	cron.Annotations = map[string]string{wellknown.AnnotationTTL: "1d"}
	deadline := "metadata.annotations[" + wellknown.AnnotationActiveDeadline + "]: has no effect on a "
	s.creates(
		row{cron, warned("metadata.annotations[" + wellknown.AnnotationTTL + "]: has no effect on a CronJob, which never finishes: remove it")},
		row{job("job", annotated(wellknown.AnnotationActiveDeadline, "1h")), warned(deadline + "Job: set spec.activeDeadlineSeconds")},
		row{pod("pod", corev1.RestartPolicyNever, wellknown.AnnotationActiveDeadline, "1h"), warned(deadline + "Pod: set spec.activeDeadlineSeconds")},
	)
}

// A bad TTL label is warned about (--strict-labels denies it, see options_test.go), an expired one
// denied.
func TestTTLLabel(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const field = "metadata.labels[curfew.dev/ttl]: "
	soon := namespace("labelled")
	soon.Labels = map[string]string{wellknown.LabelTTL: "30y"}
	single := pod("single", corev1.RestartPolicyNever)
	single.Labels = map[string]string{wellknown.LabelTTL: "1y"}
	cron := cronJob("cron")
	cron.Labels = map[string]string{wellknown.LabelTTL: "2020-02-30"}
	bad := func(text string) string {
		return warned(field + `"` + text + `" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`)
	}
	s.wouldCreate(
		row{job("seconds", labelled("90s")), ""},
		row{single, bad("1y")},
		row{cron, bad("2020-02-30")},
		row{soon, bad("30y")},
		row{job("short", labelled("30s")), warned(field + "30s is under 60s: the Job is deleted 30s after its creation; use 60s or more")},
		row{job("upper", labelled("1H")), warned(field + `"1H" is not a duration: write "1h", in lower case and without spaces`)},
		row{job("eternal", labelled("99999d")), warned(field + `"99999d" is too long: at most 2147483647s (68 years)`)},
		row{job("past", labelled("2020-12-24T003000Z")), denied("validate-marked.curfew.dev", field+"2020-12-24T003000Z expired at 2020-12-24T00:30:00Z, before the Job was created: use a later one")},
		row{job("yesterday", labelled("2020-12-24")), denied("validate-marked.curfew.dev", field+restoredDate+"Job was created: use a later one")},
		row{job("sum", labelled("1d12h")), ""},
		row{job("date", labelled("2099-12-24")), ""},
		row{job("instant", labelled("2099-12-24T003000Z")), ""},
	)
	// On an object that exists, its age counts.
	s.expectSuccess(s.create(job("running", inTemplate(hold, "true"))))
	s.expectStderr(s.kubectl("label", "job", "running", wellknown.LabelTTL+"=1y"), bad("1y"))
	s.expectStderr(s.kubectl("label", "--overwrite", "job", "running", wellknown.LabelTTL+"=1d"))
	s.expectStderr(s.kubectl("label", "job", "running", wellknown.LabelTTL+"-"))
}

// A refresh restarts the clock of a label; TestLabelsChangeRightBeforeExpiry has what the controller
// makes of it.
func TestRefreshedAt(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const field = "metadata.annotations[curfew.dev/refreshed-at]: "
	refreshed := func(at string) func(*batchv1.Job) { return annotated(wellknown.AnnotationRefreshedAt, at) }
	s.wouldCreate(
		row{job("now", labelled("1d"), refreshed(time.Now().UTC().Format(time.RFC3339))), ""},
		row{job("future", labelled("1d"), refreshed("2099-01-01T00:00:00Z")), denied("validate-marked.curfew.dev", field+"2099-01-01T00:00:00Z is more than a minute in the future: use the present time")},
		row{job("bad", labelled("1d"), refreshed("yesterday")), denied("validate-marked.curfew.dev", field+`"yesterday" is not an RFC 3339 time: use one such as 2026-12-24T00:30:00Z`)},
		row{job("alone", refreshed("2026-01-01T00:00:00Z")), warned(field + "has no effect without a duration in label curfew.dev/ttl: add one, or remove the annotation")},
	)
}

// Helm's own objects go with helm uninstall.
func TestLabelOnAHelmRelease(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	revision := labelledAs("v1", "ConfigMap", "sh.helm.release.v1.web.v1", wellknown.LabelTTL, "1d", "owner", "helm")
	s.eventually(row{revision, warned(labelField + "when this ConfigMap is deleted, the objects of its Helm release stay: use helm uninstall")})
}

// Where a value came from is for Curfew alone to say: a forged stamp would lift a value over the
// bounds.
func TestSourcesAreNotForAuthors(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultDeadline, "1h")
	s.expectSuccess(s.create(job("build", inTemplate(hold, "true"))))
	s.creates(row{job("forged", native(time.Hour), limited(time.Minute), annotated(wellknown.AnnotationTTLSource, "policy/platform"),
		annotated(wellknown.AnnotationDeadlineSource, "policy/platform")), ""})
	if got := s.getJob("forged").Annotations; got[wellknown.AnnotationTTLSource] != "object" || got[wellknown.AnnotationDeadlineSource] != "" {
		t.Errorf("the forged sources became %v", got)
	}
	refusal := `Error from server (Forbidden): admission webhook "validate.curfew.dev" denied the request: `
	const alone = " may only be written by Curfew: leave it unchanged, or remove it"
	for _, key := range []string{wellknown.AnnotationTTLSource, wellknown.AnnotationDeadlineSource} {
		s.expectRefusal(s.kubectl("annotate", "--overwrite", "job", "build", key+"=policy/platform"), refusal+"metadata.annotations["+key+"]:"+alone)
	}
	s.expectStderr(s.kubectl("annotate", "job", "build", wellknown.AnnotationTTLSource+"-"))
	s.expectRefusal(s.kubectl("annotate", "job", "build", wellknown.AnnotationTTLSource+"=namespace/"+s.name),
		refusal+"metadata.annotations["+wellknown.AnnotationTTLSource+"]:"+alone)
}

// No default reaches what has a controller owner, and yet what such an object says itself counts
// (KEP-592: owners do not block deletion).
func TestExplicitTTLOfOwnedObjectsCounts(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "1s", wellknown.AnnotationDefaultDeadline, "1h")...)
	owner := s.newJob(job("owner", ttl(hour), inTemplate(hold, "true")))
	owned := func(j *batchv1.Job) {
		j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, jobKind)}
	}
	child := pod("child", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "2s")
	// Nothing controls the Pods of a Pod, which the controller may read.
	holder := s.newPod(pod("holder", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "never"))
	child.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(holder, corev1.SchemeGroupVersion.WithKind("Pod"))}
	said := s.finishJob("said", now(), owned, ttl(2*second))
	silent := s.finishJob("silent", now(), owned)
	single := s.newPod(child)
	if got := silent; got.Spec.ActiveDeadlineSeconds != nil || got.Spec.TTLSecondsAfterFinished != nil || got.Annotations[wellknown.AnnotationTTLSource] != "" {
		t.Errorf("the owned Job was changed: %v %v %v", got.Spec.ActiveDeadlineSeconds, got.Spec.TTLSecondsAfterFinished, got.Annotations)
	}
	if got := said.Annotations[wellknown.AnnotationTTLSource]; got != "object" {
		t.Errorf("ttl-source is %q, want object", got)
	}
	s.awaitGone(said)
	s.awaitGone(single)
	s.outlast(now())
	s.stillThere(silent)
}
