package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestPodTemplateTTL(t *testing.T) {
	raw := job().Map()
	raw["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["ttlSecondsAfterFinished"] = int64(5)
	deployment := builders.MakeJob("ci", "web").TemplateAnnotation(wellknown.AnnotationTTL, "1h").Map()
	deployment["kind"], deployment["apiVersion"] = "Deployment", "apps/v1"
	run(t, podTemplateTTL, map[string]row{
		"none":      {object: job().TTL(5).TemplateAnnotation("a", "b").Map()},
		"protected": {object: job().TemplateAnnotation(wellknown.AnnotationProtect, "true").Map()},
		"Job": {object: job().TemplateAnnotation(wellknown.AnnotationTTL, "1h").Map(),
			want: []string{"error spec.template." + at("ttl-after-finished") + ": a pod template cannot have a TTL: set spec.ttlSecondsAfterFinished"}},
		"never, by outcome": {object: job().TemplateAnnotation(wellknown.AnnotationTTLFailed, "never").Map(),
			want: []string{"error spec.template." + at("ttl-after-failed") + ": a pod template cannot have a TTL: set spec.ttlSecondsAfterFinished"}},
		"raw field": {object: raw,
			want: []string{"error spec.template.spec.ttlSecondsAfterFinished: a pod template cannot have a TTL: set spec.ttlSecondsAfterFinished"}},
		"CronJob, told once": {object: builders.MakeCronJob("ci", "a").PodAnnotation(wellknown.AnnotationTTL, "1h").Map(),
			want: []string{"error spec.jobTemplate.spec.template." + at("ttl-after-finished") +
				": a pod template cannot have a TTL: set spec.jobTemplate.spec.ttlSecondsAfterFinished"}},
		"Deployment": {object: deployment,
			want: []string{"error spec.template." + at("ttl-after-finished") + ": a pod template cannot have a TTL: remove it; what a Deployment runs does not finish"}},
		"unchanged":     {old: job().TemplateAnnotation(wellknown.AnnotationTTL, "1h").Map(), object: job().TTL(5).TemplateAnnotation(wellknown.AnnotationTTL, "1h").Map()},
		"being deleted": {old: job().Map(), object: job().TemplateAnnotation(wellknown.AnnotationTTL, "1h").Deleting(noon).Map()},
	})
}
