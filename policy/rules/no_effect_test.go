package rules

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

func TestNoEffect(t *testing.T) {
	run(t, noEffect, map[string]row{
		"TTL on a Job": {object: job().Annotation(policy.AnnotationTTL, "1h").Map()},
		"TTL on a CronJob": {object: builders.MakeCronJob("ci", "a").Annotation(policy.AnnotationTTL, "1h").Map(),
			want: []string{"warning " + at("ttl-after-finished") + ": has no effect on a CronJob, which never finishes: remove it"}},
		"deadline on a Job": {object: job().Annotation(policy.AnnotationActiveDeadline, "1h").Map(),
			want: []string{"warning " + at("active-deadline") + ": has no effect on a Job: set spec.activeDeadlineSeconds"}},
		"deadline in a CronJob's template": {object: builders.MakeCronJob("ci", "a").JobAnnotation(policy.AnnotationActiveDeadline, "1h").Map(),
			want: []string{"warning spec.jobTemplate." + at("active-deadline") + ": has no effect on a Job: set spec.jobTemplate.spec.activeDeadlineSeconds"}},
		"deadline on a CronJob": {object: builders.MakeCronJob("ci", "a").Annotation(policy.AnnotationActiveDeadline, "1h").Map(),
			want: []string{"warning " + at("active-deadline") + ": has no effect on a CronJob: remove it"}},
		"unchanged": {old: job().Annotation(policy.AnnotationActiveDeadline, "1h").Map(), object: job().TTL(90).Annotation(policy.AnnotationActiveDeadline, "1h").Map()},
	})
}

// A runtime's TTL is for those that use it; of a kind without a profile nobody knows when it finishes.
func TestNoEffectByProfile(t *testing.T) {
	equal(t, judge(noEffect, trainingRuntime, Request{}, nil, object("TrainingRuntime", nil, "ttl-after-finished", "5s")), nil)
	unknown := policy.Profiles{}.For(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"})
	equal(t, judge(noEffect, unknown, Request{}, nil, object("Thing", nil, "ttl-after-failed", "5s")),
		[]string{"warning " + at("ttl-after-failed") + ": has no effect on a Thing: no KindProfile says when it finishes; use label curfew.dev/ttl"})
}
