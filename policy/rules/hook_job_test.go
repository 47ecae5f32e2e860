package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

func TestHookJob(t *testing.T) {
	const argo, helm = "argocd.argoproj.io/hook", "helm.sh/hook"
	run(t, hookJob, map[string]row{
		"no hook":    {object: job().TTL(5).Map()},
		"no TTL":     {object: job().Annotation(argo, "PreSync").Map()},
		"never":      {object: job().Annotation(argo, "PreSync").Annotation(wellknown.AnnotationTTL, "never").Map()},
		"unreadable": {object: job().Annotation(argo, "PreSync").Annotation(wellknown.AnnotationTTL, "?").Map()},
		"Argo CD": {object: job().TTL(600).Annotation(argo, "PreSync").Map(),
			want: []string{"warning spec.ttlSecondsAfterFinished: Argo CD may sync again when its hook is deleted: use argocd.argoproj.io/hook-delete-policy"}},
		"Helm": {object: job().TTL(600).Annotation(helm, "pre-install").Map(),
			want: []string{"warning spec.ttlSecondsAfterFinished: helm may fail when its hook is deleted during a release: use helm.sh/hook-delete-policy"}},
		"unchanged": {old: job().TTL(600).Annotation(helm, "x").Map(), object: job().TTL(600).Annotation(helm, "x").Label("a", "b").Map()},
	})
}
