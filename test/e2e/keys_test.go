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
	prefix := func(key string) string { return "metadata.annotations[" + key + "]: " }
	const jobs, pods = "validate.curfew.dev", "validate-pods.curfew.dev"
	templated := cronJob("cron")
	templated.Spec.JobTemplate.Annotations = map[string]string{wellknown.AnnotationTTL: "soon", wellknown.AnnotationProtect: "1"}
	s.creates(
		row{job("all", annotated(wellknown.AnnotationTTL, "-1")), denied(jobs, prefix(wellknown.AnnotationTTL)+`"-1" is negative: a duration is 0 or more, or never`)},
		row{job("succeeded", annotated(wellknown.AnnotationTTLSucceeded, "1y")), denied(jobs, prefix(wellknown.AnnotationTTLSucceeded)+
			`"1y" is not a duration: unit "y" is unknown; `+readable+`, or never`)},
		row{job("failed", annotated(wellknown.AnnotationTTLFailed, "")), denied(jobs, prefix(wellknown.AnnotationTTLFailed)+`is empty: `+readable+`, or never`)},
		row{job("protected", annotated(wellknown.AnnotationProtect, "yes")), denied(jobs, prefix(wellknown.AnnotationProtect)+
			`"yes" is neither "true" nor "false": use one of them`)},
		row{job("zero", limited(0)), denied(jobs, `spec.activeDeadlineSeconds: "0" is below 1: a deadline is 1s or more`)},
		row{pod("pod", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "1h30"), denied(pods, prefix(wellknown.AnnotationTTL)+
			`"1h30" is not a duration: `+readable+`, or never`)},
		row{templated, denied(jobs, "spec.jobTemplate."+prefix(wellknown.AnnotationTTL)+`"soon" is not a duration: `+readable+`, or never; `+
			"spec.jobTemplate."+prefix(wellknown.AnnotationProtect)+`"1" is neither "true" nor "false": use one of them`)},
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
	j := s.finishJob("said", now(), owned, ttl(2*second))
	silent := s.finishJob("silent", now(), owned)
	single := s.newPod(child)
	if got := silent; got.Spec.ActiveDeadlineSeconds != nil || got.Spec.TTLSecondsAfterFinished != nil || got.Annotations[wellknown.AnnotationTTLSource] != "" {
		t.Errorf("the owned Job was changed: %v %v %v", got.Spec.ActiveDeadlineSeconds, got.Spec.TTLSecondsAfterFinished, got.Annotations)
	}
	if got := j.Annotations[wellknown.AnnotationTTLSource]; got != "object" {
		t.Errorf("ttl-source is %q, want object", got)
	}
	s.awaitGone(j)
	s.awaitGone(single)
	s.outlast(now())
	s.stillThere(silent)
}
