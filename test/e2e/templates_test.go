package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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

func TestPodThatNeverFinishesCannotHaveATTL(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	reason := "spec.restartPolicy: a Pod with a TTL cannot have Always (absent means Always), as it never finishes: use OnFailure or Never"
	s.expectRefusal(s.create(pod("always", corev1.RestartPolicyAlways, wellknown.AnnotationTTL, "1h")), denied("validate-marked-pods.curfew.dev", reason))
	s.expectRefusal(s.create(pod("absent", "", wellknown.AnnotationTTL, "1h")), denied("validate-marked-pods.curfew.dev", reason))
	s.expectStderr(s.create(pod("on-failure", corev1.RestartPolicyOnFailure, wellknown.AnnotationTTL, "1h")))
	// The same Pod without a TTL passes, also where a default is in force.
	s.expectStderr(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationDefaultPodTTL+"=1h"))
	s.expectStderr(s.create(pod("server", corev1.RestartPolicyAlways)))
	if got := s.getPod("server").Annotations; got[wellknown.AnnotationTTL] != "" {
		t.Errorf("it got a default: %v", got)
	}
}

// On UPDATE a rule refuses only values that the request changes: who changes something else is not
// made to clean up.
func TestUpdateRefusesOnlyWhatItChanges(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.newJob(job("old", ttl(100*hour), inTemplate(hold, "true")))
	s.newJob(job("leaving", ttl(100*hour), inTemplate(hold, "true"), finalized))
	s.expectStderr(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationMaxTTL+"=1h"))

	s.expectStderr(s.kubectl("label", "job", "old", "team=blue"))
	s.expectStderr(s.kubectl("annotate", "job", "old", "example.com/note=x"))
	s.expectStderr(s.kubectl("annotate", "job", "old", "curfew.dev/protect=true"))
	refusal := `Error from server (Forbidden): admission webhook "validate.curfew.dev" denied the request: ` +
		`metadata.annotations[curfew.dev/ttl-after-finished]: 8d is above curfew.dev/max-ttl 1h of namespace "` + s.name + `": use 1h or less`
	s.expectRefusal(s.kubectl("annotate", "--overwrite", "job", "old", wellknown.AnnotationTTL+"=8d"), refusal)
	s.expectRefusal(s.kubectl("annotate", "job", "old", wellknown.AnnotationTTL+"-"),
		`Error from server (Forbidden): admission webhook "validate.curfew.dev" denied the request: `+
			`metadata.annotations[curfew.dev/ttl-after-finished]: cannot be removed while curfew.dev/max-ttl 1h of namespace "`+s.name+`" applies: set it to 1h or less`)
	s.expectStderr(s.kubectl("annotate", "--overwrite", "job", "old", wellknown.AnnotationTTL+"=1h"))

	// A terminating object always passes, or its finalizers could not be removed.
	leaving := s.getJob("leaving")
	s.expectSuccess(s.kubectl("delete", "job", "leaving", "--wait=false"))
	s.awaitDeletion(leaving)
	s.expectStderr(s.kubectl("annotate", "--overwrite", "job", "leaving", wellknown.AnnotationTTL+"=8d"))
	s.patchJob("leaving", `{"metadata":{"finalizers":null}}`)
	s.awaitGone(leaving)
}

// In mode warn defaults are filled in, and what would be refused is warned about.
func TestModeWarn(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationMode, "warn", wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	s.expectStderr(s.create(job("default")),
		`Warning: curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "`+s.name+`"`)
	s.expectStderr(s.create(job("long", ttl(8*24*hour))),
		`Warning: curfew: metadata.annotations[curfew.dev/ttl-after-finished]: would be refused (mode warn): `+
			`691200 (8d) is above curfew.dev/max-ttl 7d of namespace "`+s.name+`": use 7d or less`)
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

// A dry run of kubectl is answered like the real thing and changes nothing.
func TestServerSideDryRun(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	out := s.kubectlInput(s.manifest(job("trial")), "create", "-f", "-", "--dry-run=server", "-o", "jsonpath={.spec.ttlSecondsAfterFinished}")
	s.expectStderr(out, `Warning: curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "`+s.name+`"`)
	if out.stdout != "86400" {
		t.Errorf("the dry run shows %q, want 86400", out.stdout)
	}
	var none *batchv1.Job
	if got := s.getJob("trial"); got != none {
		t.Error("the dry run created it")
	}
}
