package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

func TestPodTemplateTTL(t *testing.T) {
	run(t, podTemplateTTL, map[string]row{
		"protected": {object: job().TemplateAnnotation(wellknown.AnnotationProtect, "true").Map()},
		"never, by outcome": {object: job().TemplateAnnotation(wellknown.AnnotationTTLFailed, "never").Map(),
			want: []string{"error spec.template." + at("ttl-after-failed") + ": a pod template cannot have a TTL: set spec.ttlSecondsAfterFinished"}},
		"unchanged":     {old: job().TemplateAnnotation(wellknown.AnnotationTTL, "1h").Map(), object: job().TTL(5).TemplateAnnotation(wellknown.AnnotationTTL, "1h").Map()},
		"being deleted": {old: job().Map(), object: job().TemplateAnnotation(wellknown.AnnotationTTL, "1h").Deleting(noon).Map()},
	})
}
