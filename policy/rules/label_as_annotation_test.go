package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestLabelAsAnnotation(t *testing.T) {
	run(t, labelAsAnnotation, map[string]row{
		"the label itself": {object: job().Label(wellknown.LabelTTL, "1h").Map()},
		"on a CronJob": {object: builders.MakeCronJob("ci", "a").Annotation(wellknown.LabelTTL, "1h").Map(),
			want: []string{"warning " + at("ttl") + ": is a label, and has no effect as an annotation: set metadata.labels[curfew.dev/ttl]"}},
		"in a Job template": {object: builders.MakeCronJob("ci", "a").JobAnnotation(wellknown.LabelTTL, "1h").Map(),
			want: []string{"warning spec.jobTemplate." + at("ttl") + ": is a label, and has no effect as an annotation: set spec.jobTemplate.metadata.labels[curfew.dev/ttl], or annotation curfew.dev/ttl-after-finished"}},
		"beside the label": {object: job().Label(wellknown.LabelTTL, "1h").Annotation(wellknown.LabelTTL, "1h").Map(),
			want: []string{"warning " + at("ttl") + ": is a label, and has no effect as an annotation: set metadata.labels[curfew.dev/ttl], or annotation curfew.dev/ttl-after-finished"}},
		"of a kind without a profile": {object: object("Thing", nil, "ttl", "1h"),
			want: []string{"warning " + at("ttl") + ": is a label, and has no effect as an annotation: set metadata.labels[curfew.dev/ttl]"}},
		"unchanged": {old: job().Annotation(wellknown.LabelTTL, "1h").Map(), object: job().TTL(90).Annotation(wellknown.LabelTTL, "1h").Map()},
	})
}
