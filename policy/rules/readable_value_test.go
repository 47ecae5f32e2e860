package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

func TestReadableValue(t *testing.T) {
	broken := func(value any) map[string]any {
		object := job().TTL(1).Map()
		object["spec"].(map[string]any)["ttlSecondsAfterFinished"] = value
		return object
	}
	run(t, readableValue, map[string]row{
		"readable": {object: job().TTL(0).Deadline(1).Annotation(wellknown.AnnotationTTLFailed, "never").Annotation(wellknown.AnnotationProtect, "true").Map()},
		"too long": {object: job().Annotation(wellknown.AnnotationTTL, "100y").Annotation(wellknown.AnnotationTTLFailed, "100000d").Map(),
			want: []string{
				"error " + at("ttl-after-finished") + `: "100y" is not a duration: unit "y" is unknown; ` + durations + ", or never",
				"error " + at("ttl-after-failed") + `: "100000d" is too long: at most 2147483647s (68 years), or never`,
			}},
		"unchanged":                        {old: job().Annotation(wellknown.AnnotationTTL, "soon").Map(), object: job().Annotation(wellknown.AnnotationTTL, "soon").TTL(5).Map()},
		"one unreadable value for another": {old: broken(true), object: broken("x"), want: []string{`error spec.ttlSecondsAfterFinished: "x" is not a whole number of seconds: use one, such as 3600`}},
		"being deleted":                    {old: job().Map(), object: job().Annotation(wellknown.AnnotationTTL, "soon").Deleting(noon).Map()},
	})
}
