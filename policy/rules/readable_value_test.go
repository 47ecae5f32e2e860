package rules

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestReadableValue(t *testing.T) {
	broken := func(value any) map[string]any {
		object := job().TTL(1).Map()
		object["spec"].(map[string]any)["ttlSecondsAfterFinished"] = value
		return object
	}
	run(t, readableValue, map[string]row{
		"readable": {object: job().TTL(0).Deadline(1).Annotation(wellknown.AnnotationTTLFailed, "never").Annotation(wellknown.AnnotationProtect, "true").Map()},
		"duration": {object: job().Annotation(wellknown.AnnotationTTL, "soon").Map(),
			want: []string{"error " + at("ttl-after-finished") + `: "soon" is not a duration: ` + durations + ", or never"}},
		"empty": {object: pod().Annotation(wellknown.AnnotationTTLFailed, "").Map(),
			want: []string{"error " + at("ttl-after-failed") + ": is empty: " + durations + ", or never"}},
		"negative": {object: job().TTL(-1).Map(),
			want: []string{`error spec.ttlSecondsAfterFinished: "-1" is negative: a duration is 0 or more`}},
		"deadline of 0": {object: job().Deadline(0).Map(),
			want: []string{`error spec.activeDeadlineSeconds: "0" is below 1: a deadline is 1s or more`}},
		"boolean": {object: broken(true),
			want: []string{"error spec.ttlSecondsAfterFinished: true is not a whole number of seconds: use one, such as 3600"}},
		"too long": {object: job().Annotation(wellknown.AnnotationTTL, "100y").Annotation(wellknown.AnnotationTTLFailed, "100000d").Map(),
			want: []string{
				"error " + at("ttl-after-finished") + `: "100y" is not a duration: unit "y" is unknown; ` + durations + ", or never",
				"error " + at("ttl-after-failed") + `: "100000d" is too long: at most 2147483647s (68 years), or never`,
			}},
		"protect": {object: pod().Annotation(wellknown.AnnotationProtect, "yes").Map(),
			want: []string{"error " + at("protect") + `: "yes" is neither "true" nor "false": use one of them`}},
		"in a CronJob's template": {object: builders.MakeCronJob("ci", "a").JobAnnotation(wellknown.AnnotationTTL, "soon").Map(),
			want: []string{"error spec.jobTemplate." + at("ttl-after-finished") + `: "soon" is not a duration: ` + durations + ", or never"}},
		"unchanged": {old: job().Annotation(wellknown.AnnotationTTL, "soon").Map(), object: job().Annotation(wellknown.AnnotationTTL, "soon").TTL(5).Map()},
		"one unreadable value for another": {old: broken(true), object: broken("x"),
			want: []string{`error spec.ttlSecondsAfterFinished: "x" is not a whole number of seconds: use one, such as 3600`}},
		"being deleted": {old: job().Map(), object: job().Annotation(wellknown.AnnotationTTL, "soon").Deleting(noon).Map()},
	})
}

func TestReadableDurationDeadline(t *testing.T) {
	with := func(timeout any) map[string]any { return object("PipelineRun", map[string]any{"timeout": timeout}) }
	equal(t, judge(readableValue, pipelineRun, Request{}, nil, with("1h0m0s")), nil)
	equal(t, judge(readableValue, pipelineRun, Request{}, nil, with("0s")), nil)
	equal(t, judge(readableValue, pipelineRun, Request{}, nil, with("1d")),
		[]string{`error spec.timeout: "1d" is not a duration: use units h, m, s (1h30m), or 0 for none`})
}
