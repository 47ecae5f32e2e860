package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

func TestGitOps(t *testing.T) {
	const tail = " tracks this object and creates and runs it again after it is deleted: use a longer TTL or a hook"
	const tracking, flux = "argocd.argoproj.io/tracking-id", "kustomize.toolkit.fluxcd.io/name"
	run(t, gitOps, map[string]row{
		"untracked": {object: job().TTL(0).Map()},
		"no TTL":    {object: job().Annotation(tracking, "app").Map()},
		"an hour":   {object: job().TTL(3600).Annotation(tracking, "app").Map()},
		"never":     {object: job().Annotation(wellknown.AnnotationTTL, "never").Annotation(tracking, "app").Map()},
		"a hook":    {object: job().TTL(0).Annotation(tracking, "app").Annotation("argocd.argoproj.io/hook", "Sync").Map()},
		"zero":      {object: job().TTL(0).Annotation(tracking, "app").Map(), want: []string{"warning spec.ttlSecondsAfterFinished: Argo CD" + tail}},
		"by label":  {object: job().TTL(3599).Label("argocd.argoproj.io/instance", "app").Map(), want: []string{"warning spec.ttlSecondsAfterFinished: Argo CD" + tail}},
		"Flux":      {object: job().TTL(600).Label(flux, "app").Map(), want: []string{"warning spec.ttlSecondsAfterFinished: Flux" + tail}},
		"Flux Helm": {object: job().TTL(600).Label("helm.toolkit.fluxcd.io/name", "app").Map(), want: []string{"warning spec.ttlSecondsAfterFinished: Flux" + tail}},
		"unchanged": {old: job().TTL(0).Label(flux, "app").Map(), object: job().TTL(0).Label(flux, "app").Label("a", "b").Map()},
	})
}
