package rules

import (
	"errors"
	"testing"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestRemovedDefault(t *testing.T) {
	limit := annotated("max-ttl", "1d")
	stopped := func(mode resolution.Mode) []*resolution.PlatformPolicy {
		high := &lifetime.Setting{Path: "spec.bounds.maxTTL", Err: &lifetime.UndecidedError{Err: errors.New("too costly")}}
		return []*resolution.PlatformPolicy{{Name: "p", Mode: mode, Bounds: lifetime.Bounds{TTL: lifetime.Range{Max: high}}}}
	}
	run(t, removedDefault, map[string]row{
		"created without":           {object: job().Map(), namespace: limit},
		"changed":                   {old: job().TTL(60).Map(), object: job().TTL(600).Map(), namespace: limit},
		"removed, a bound below":    {old: job().TTL(60).Map(), object: job().Map(), namespace: annotated("min-ttl", "1s")},
		"removed, unreadable bound": {old: job().TTL(60).Map(), object: job().Map(), namespace: annotated("max-ttl", "?")},
		"removed, a bound whose evaluation was stopped": {old: job().TTL(60).Map(), object: job().Map(), policies: stopped(""),
			want: []string{"error spec.ttlSecondsAfterFinished: cannot be removed: maxTTL cannot be read: too costly: use a smaller object, or cheaper expressions"}},
		"removed, such a bound on trial":   {old: job().TTL(60).Map(), object: job().Map(), policies: stopped(resolution.ModeDryRun)},
		"removed, such a bound that warns": {old: job().TTL(60).Map(), object: job().Map(), policies: stopped(resolution.ModeWarn)},
		"removed for one outcome": {old: pod().Annotation(wellknown.AnnotationTTL, "1h").Map(), object: pod().Annotation(wellknown.AnnotationTTLFailed, "1h").Map(), namespace: limit,
			want: []string{"error " + at("ttl-after-finished") + `: cannot be removed while curfew.dev/max-ttl 1d of namespace "ci" applies: set it to 1d or less`}},
		// A CronJob never finishes, and was told to remove it.
		"removed where it had no effect": {old: builders.MakeCronJob("ci", "a").Annotation(wellknown.AnnotationTTL, "1h").Map(), object: builders.MakeCronJob("ci", "a").Map(), namespace: limit},
		"moved":                          {old: job().TTL(60).Map(), object: job().Annotation(wellknown.AnnotationTTL, "60").Map(), namespace: limit},
		"being deleted":                  {old: job().TTL(60).Map(), object: job().Deleting(noon).Map(), namespace: limit},
	})
}
