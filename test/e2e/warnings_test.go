package e2e

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// A hook is waited for: whoever runs it is in trouble when it vanishes, by a default as well.
func TestHooksAreWarned(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultPodTTL, "2h")
	const helm, argo = "helm.sh/hook", "argocd.argoproj.io/hook"
	const helmSays = "helm may fail when its hook is deleted during a release: use helm.sh/hook-delete-policy"
	const argoSays = "Argo CD may sync again when its hook is deleted: use argocd.argoproj.io/hook-delete-policy"
	const field, annotation = "spec.ttlSecondsAfterFinished: ", "metadata.annotations[curfew.dev/ttl-after-finished]: "
	s.creates(
		row{job("helm", native(time.Hour), annotated(helm, "pre-install")), warned(field + helmSays)},
		row{job("argo", native(time.Hour), annotated(argo, "PreSync")), warned(field + argoSays)},
		row{job("helm-annotation", ttl(2*time.Hour), annotated(helm, "test")), warned(annotation + helmSays)},
		row{pod("argo-default", corev1.RestartPolicyNever, argo, "Sync"), both(
			warned(`curfew.dev/ttl-after-finished defaulted to 2h from namespace "`+s.name+`"`), warned(annotation+argoSays))},
		row{job("helm-without", annotated(helm, "pre-install")), ""},
		row{job("helm-never", annotated(helm, "pre-install"), annotated(wellknown.AnnotationTTL, "never")), ""},
	)
}

// What a GitOps tool tracks is created, and so run, again once it is gone. A hook of Argo CD is
// not: that one has a warning of its own.
func TestShortTTLUnderGitOpsIsWarned(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const again = " tracks this object and creates and runs it again after it is deleted: use a longer TTL or a hook"
	const field, annotation = "spec.ttlSecondsAfterFinished: ", "metadata.annotations[curfew.dev/ttl-after-finished]: "
	withLabel := func(key string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Labels = map[string]string{key: "app"} }
	}
	s.creates(
		row{job("argo-id", native(10*time.Minute), annotated("argocd.argoproj.io/tracking-id", "x")), warned(field + "Argo CD" + again)},
		row{job("argo-label", ttl(10*time.Minute), withLabel("argocd.argoproj.io/instance")), warned(annotation + "Argo CD" + again)},
		row{job("flux", native(10*time.Minute), withLabel("kustomize.toolkit.fluxcd.io/name")), warned(field + "Flux" + again)},
		row{job("flux-helm", ttl(0), withLabel("helm.toolkit.fluxcd.io/name")), both(
			warned(annotation+"0 (0s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"), warned(annotation+"Flux"+again))},
		row{job("long", native(time.Hour), annotated("argocd.argoproj.io/tracking-id", "x")), ""},
		row{job("hook", native(10*time.Minute), annotated("argocd.argoproj.io/tracking-id", "x"), annotated("helm.sh/hook", "test")),
			warned(field + "helm may fail when its hook is deleted during a release: use helm.sh/hook-delete-policy")},
	)
}

// Values that no admission reviewed: an unreadable default is no default, an unreadable bound keeps
// what it would have bound, and the author of an object is warned, not denied.
func TestUnreadableNamespaceIsTold(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.name = unreadable
	s.expectSuccess(s.kubectl("wait", "--for=jsonpath={.metadata.labels.curfew\\.dev/in-use}=true", "--timeout=10m", "namespace/"+s.name))
	const unknown = `"%" is not a duration: unit "y" is unknown; ` + readable
	s.eventually(row{job("default"), warned(`no default from metadata.annotations[curfew.dev/default-ttl] of namespace "` + s.name + `": ` +
		strings.Replace(unknown, "%", "1y", 1) + ", or never")})
	s.expectStderr(s.create(job("own", native(time.Hour))), warned(`spec.ttlSecondsAfterFinished: cannot be checked, so the object will be kept: `+
		`curfew.dev/max-ttl of namespace "`+s.name+`" cannot be read: `+strings.Replace(unknown, "%", "2y", 1)))
}

// Every decision is in the API server's audit log, under the name of the webhook.
func TestAuditAnnotations(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	s.expectSuccess(s.create(job("default")))
	if out := s.create(job("long", native(8*24*time.Hour), annotated("helm.sh/hook", "test"))); !out.failed {
		t.Fatal("it was not refused")
	}
	audited, err := suite.cluster.Audited(s.name)
	s.ok(err)
	for name, want := range map[string]map[string]string{
		"default": {
			"defaults.curfew.dev/decision": "defaulted", "defaults.curfew.dev/source": "namespace/" + s.name,
			"validate.curfew.dev/decision": "defaulted", "validate.curfew.dev/source": "namespace/" + s.name,
		},
		"long": {
			"defaults.curfew.dev/decision": "allowed", "defaults.curfew.dev/source": "object",
			"validate.curfew.dev/decision": "denied", "validate.curfew.dev/source": "object", "validate.curfew.dev/rules": "bounds,hook-job",
		},
	} {
		for key, value := range want {
			if got := audited[name][key]; got != value {
				t.Errorf("the audit log says %s=%q of %s, want %q", key, got, name, value)
			}
		}
		if got := len(curfews(audited[name])); got != len(want) {
			t.Errorf("the audit log says %v of %s, want %v", curfews(audited[name]), name, want)
		}
	}
}

func curfews(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		if webhook, _, _ := strings.Cut(key, "/"); strings.HasSuffix(webhook, ".curfew.dev") {
			out[key] = value
		}
	}
	return out
}

// A change of one field causes no finding about others: the rules do not judge values that stay the
// same (each rule; see also TestUpdateRefusesOnlyWhatItChanges).
func TestUpdateWarnsOnlyOfWhatItChanges(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectSuccess(s.create(job("old", native(5*time.Second), annotated("helm.sh/hook", "test"), labelled("1w"), inTemplate(hold, "true"))))
	s.expectStderr(s.kubectl("annotate", "job", "old", wellknown.AnnotationProtect+"=true"),
		warned("spec.ttlSecondsAfterFinished: the Job's own controller deletes by this field, whatever curfew.dev/protect says: remove one"),
		warned("metadata.labels[curfew.dev/ttl]: has no effect: the Job is protected by annotation curfew.dev/protect"))
	s.expectStderr(s.kubectl("annotate", "job", "old", wellknown.AnnotationTTLFailed+"=4s"),
		warned("metadata.annotations[curfew.dev/ttl-after-failed]: 4s is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"))
	patched, err := suite.cluster.Client.BatchV1().Jobs(s.name).Get(s.ctx, "old", metav1.GetOptions{})
	s.ok(err)
	if patched.Annotations[wellknown.AnnotationTTLFailed] != "4s" {
		t.Errorf("the annotation did not arrive: %v", patched.Annotations)
	}
}
