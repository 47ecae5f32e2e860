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
		"unchanged":  {old: job().TTL(600).Annotation(helm, "x").Map(), object: job().TTL(600).Annotation(helm, "x").Label("a", "b").Map()},
	})
}
