package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// A TTL in a pod template would take single Pods out from under their owner.
func TestTTLInPodTemplateIsRefused(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	where := "spec.template.metadata.annotations[curfew.dev/ttl-after-finished]: a pod template cannot have a TTL: "
	marked := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{wellknown.AnnotationTTL: "1h"}},
		Spec:       podSpec(corev1.RestartPolicyAlways),
	}
	selector := &metav1.LabelSelector{MatchLabels: marked.Labels}
	meta := metav1.ObjectMeta{Name: "x"}
	cron := cronJob("x")
	cron.Spec.JobTemplate.Spec.Template.Annotations = marked.Annotations
	for name, test := range map[string]struct {
		object          any
		webhook, reason string
	}{
		"Job": {job("x", inTemplate(wellknown.AnnotationTTL, "1h")), "validate-marked.curfew.dev",
			where + "set spec.ttlSecondsAfterFinished"},
		"CronJob": {cron, "validate-marked.curfew.dev",
			"spec.jobTemplate." + where + "set spec.jobTemplate.spec.ttlSecondsAfterFinished"},
		"Deployment": {&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Selector: selector, Template: marked}}, "templates.curfew.dev",
			where + "remove it; what a Deployment runs does not finish"},
		"StatefulSet": {&appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: meta,
			Spec: appsv1.StatefulSetSpec{Selector: selector, Template: marked}}, "templates.curfew.dev",
			where + "remove it; what a StatefulSet runs does not finish"},
		"DaemonSet": {&appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: meta,
			Spec: appsv1.DaemonSetSpec{Selector: selector, Template: marked}}, "templates.curfew.dev",
			where + "remove it; what a DaemonSet runs does not finish"},
	} {
		t.Run(name, func(t *testing.T) {
			inner := *s
			inner.T = t
			inner.expectRefusal(inner.create(test.object), denied(test.webhook, test.reason))
		})
	}
}

// In mode dry-run nothing is changed, refused or deleted. Admission and the controller say what
// they would do.
func TestModeDryRun(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationMode, "dry-run", wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	s.expectStderr(s.create(job("default")),
		`Warning: curfew: ttlSecondsAfterFinished would be defaulted to 86400 (1d) from namespace "`+s.name+`" (dry-run)`)
	if created := s.getJob("default"); created.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("it was changed: %d", *created.Spec.TTLSecondsAfterFinished)
	}
	s.expectStderr(s.create(job("long", ttl(8*24*hour))),
		`Warning: curfew: metadata.annotations[curfew.dev/ttl-after-finished]: would be refused (mode dry-run): `+
			`691200 (8d) is above curfew.dev/max-ttl 7d of namespace "`+s.name+`": use 7d or less`)

	due := s.finishJob("due", now(), ttl(1*second))
	s.awaitLog(suite.controller.Log, s.name+"/due", "dry")
	s.outlast(now())
	s.stillThere(due)
	for _, sent := range suite.proxy.Deletes(s.name, "due") {
		if len(sent.Options.DryRun) == 0 {
			t.Errorf("a DELETE was sent that is no dry run")
		}
	}
}
