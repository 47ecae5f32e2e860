package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestAnnotationAsLabel(t *testing.T) {
	onLabel := func(key, fix string) string {
		return "warning metadata.labels[curfew.dev/" + key + "]: is an annotation, and has no effect as a label: " + fix
	}
	run(t, annotationAsLabel, map[string]row{
		"the annotation itself": {object: job().Annotation(wellknown.AnnotationTTL, "1h").Map()},
		"the label":             {object: job().Label(wellknown.LabelTTL, "1h").Map()},
		"several": {object: job().Label(wellknown.AnnotationTTLFailed, "1h").Label(wellknown.AnnotationProtect, "true").Label(wellknown.AnnotationActiveDeadline, "1h").Map(),
			want: []string{
				onLabel("active-deadline", "set metadata.annotations[curfew.dev/active-deadline]"),
				onLabel("protect", "set metadata.annotations[curfew.dev/protect]"),
				onLabel("ttl-after-failed", "set metadata.annotations[curfew.dev/ttl-after-failed]"),
			}},
		"a TTL on what never finishes": {object: builders.MakeCronJob("ci", "a").Label(wellknown.AnnotationTTL, "1h").Map(),
			want: []string{onLabel("ttl-after-finished", "a CronJob has no TTL after finished; use label curfew.dev/ttl")}},
		"a default on a Job": {object: job().Label(wellknown.AnnotationDefaultTTL, "1h").Map()},
		"labels of Curfew's": {object: builders.MakeNamespace("ci").Label(wellknown.LabelInUse, "true").Map()},
		"unchanged":          {old: job().Label(wellknown.AnnotationTTL, "1h").Map(), object: job().TTL(90).Label(wellknown.AnnotationTTL, "1h").Map()},
	})
}
