package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

func TestRemovedDefault(t *testing.T) {
	limit := annotated("max-ttl", "1d")
	run(t, removedDefault, map[string]row{
		"created without": {object: job().Map(), namespace: limit},
		"changed":         {old: job().TTL(60).Map(), object: job().TTL(600).Map(), namespace: limit},
		"removed": {old: job().TTL(60).Map(), object: job().Map(), namespace: limit,
			want: []string{`error spec.ttlSecondsAfterFinished: cannot be removed while curfew.dev/max-ttl 1d of namespace "ci" applies: set it to 1d or less`}},
		"removed, no bound":         {old: job().TTL(60).Map(), object: job().Map()},
		"removed, a bound below":    {old: job().TTL(60).Map(), object: job().Map(), namespace: annotated("min-ttl", "1s")},
		"removed, unreadable bound": {old: job().TTL(60).Map(), object: job().Map(), namespace: annotated("max-ttl", "?")},
		"removed for one outcome": {old: pod().Annotation(policy.AnnotationTTL, "1h").Map(), object: pod().Annotation(policy.AnnotationTTLFailed, "1h").Map(), namespace: limit,
			want: []string{"error " + at("ttl-after-finished") + `: cannot be removed while curfew.dev/max-ttl 1d of namespace "ci" applies: set it to 1d or less`}},
		// A CronJob never finishes, and was told to remove it.
		"removed where it had no effect": {old: builders.MakeCronJob("ci", "a").Annotation(policy.AnnotationTTL, "1h").Map(), object: builders.MakeCronJob("ci", "a").Map(), namespace: limit},
		"moved":                          {old: job().TTL(60).Map(), object: job().Annotation(policy.AnnotationTTL, "60").Map(), namespace: limit},
		"being deleted":                  {old: job().TTL(60).Map(), object: job().Deleting(noon).Map(), namespace: limit},
	})
}
