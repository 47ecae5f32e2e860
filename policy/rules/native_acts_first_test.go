package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestNativeActsFirst(t *testing.T) {
	run(t, nativeActsFirst, map[string]row{
		"alone": {object: job().Annotation(wellknown.AnnotationTTLFailed, "never").Map()},
		"equal": {object: job().TTL(3600).Annotation(wellknown.AnnotationTTL, "1h").Map()},
		"in a CronJob's template": {object: builders.MakeCronJob("ci", "a").TTL(600).JobAnnotation(wellknown.AnnotationTTL, "1h").Map(),
			want: []string{"error spec.jobTemplate." + at("ttl-after-finished") + ": 1h is longer than spec.jobTemplate.spec.ttlSecondsAfterFinished 600 (10m), which the Job's own controller acts on first: remove one"}},
		"unchanged": {old: job().TTL(600).Annotation(wellknown.AnnotationTTL, "1h").Map(), object: job().TTL(600).Annotation(wellknown.AnnotationTTL, "1h").Label("a", "b").Map()},
		"the native one lowered": {old: job().TTL(3600).Annotation(wellknown.AnnotationTTL, "1h").Map(), object: job().TTL(60).Annotation(wellknown.AnnotationTTL, "1h").Map(),
			want: []string{"error " + at("ttl-after-finished") + ": 1h is longer than spec.ttlSecondsAfterFinished 60 (1m), which the Job's own controller acts on first: remove one"}},
		"unreadable": {object: job().TTL(600).Annotation(wellknown.AnnotationTTL, "?").Map()},
	})
}
