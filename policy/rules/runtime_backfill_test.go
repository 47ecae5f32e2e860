package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// A warning says how much that finished before a runtime's TTL is deleted by it, or that none is.
func TestRuntimeBackfill(t *testing.T) {
	runtime := func(pairs ...string) map[string]any { return object("TrainingRuntime", map[string]any{}, pairs...) }
	native := object("TrainingRuntime", map[string]any{"ttlSecondsAfterFinished": int64(60)}, "backfill", "true")
	profile := *trainingRuntime
	profile.RuntimeTTLs = []fieldpath.FieldPath{profile.TTL}
	says := func(what string) []string {
		return []string{"warning " + at("backfill") + ": lets the TTL delete " + what}
	}
	const rate = " that finished before the runtime had it, at most 1000 a minute"
	kept := []string{"warning " + at("backfill") + `: the new TTL does not delete TrainJobs that have finished already: set curfew.dev/backfill: "true" to delete these, too`}
	unknown := says("TrainJobs" + rate + "; how many is not known")
	for name, test := range map[string]struct {
		old, object map[string]any
		reached     Reached
		want        []string
	}{
		"created":                     {object: runtime("ttl-after-finished", "1d", "backfill", "true"), reached: Reached{Known: true, Count: 12}, want: says("12 TrainJobs" + rate)},
		"one":                         {object: runtime("ttl-after-finished", "1d", "backfill", "true"), reached: Reached{Known: true, Count: 1}, want: says("1 TrainJob" + rate)},
		"more than were read":         {object: runtime("ttl-after-finished", "1d", "backfill", "true"), reached: Reached{Known: true, Count: 500, More: true}, want: says("at least 500 TrainJobs" + rate)},
		"not counted":                 {object: runtime("ttl-after-finished", "1d", "backfill", "true"), want: unknown},
		"the field":                   {object: native, want: unknown},
		"set":                         {old: runtime("ttl-after-finished", "1d"), object: runtime("ttl-after-finished", "1d", "backfill", "true"), want: unknown},
		"set to true":                 {old: runtime("ttl-after-finished", "1d", "backfill", "false"), object: runtime("ttl-after-finished", "1d", "backfill", "true"), want: unknown},
		"the TTL changes":             {old: runtime("ttl-after-finished", "2d", "backfill", "true"), object: runtime("ttl-after-finished", "1d", "backfill", "true"), want: unknown},
		"as it was":                   {old: runtime("ttl-after-finished", "1d", "backfill", "true"), object: runtime("ttl-after-finished", "1d", "backfill", "true", "x", "y")},
		"taken away":                  {old: runtime("ttl-after-finished", "1d", "backfill", "true"), object: runtime("ttl-after-finished", "1d")},
		"false":                       {object: runtime("ttl-after-finished", "1d", "backfill", "false")},
		"without a TTL":               {object: runtime("backfill", "true")},
		"the TTL changes, without it": {old: runtime("ttl-after-finished", "2d"), object: runtime("ttl-after-finished", "1d"), want: kept},
		"the first TTL":               {old: runtime(), object: runtime("ttl-after-failed", "1d"), want: kept},
		"the field, without it":       {old: runtime(), object: object("TrainingRuntime", map[string]any{"ttlSecondsAfterFinished": int64(60)}), want: kept},
		"it changes, with false":      {old: runtime("ttl-after-finished", "2d", "backfill", "false"), object: runtime("ttl-after-finished", "1d", "backfill", "false"), want: kept},
		"it changes as it is taken":   {old: runtime("ttl-after-finished", "2d", "backfill", "true"), object: runtime("ttl-after-finished", "1d"), want: kept},
		"created without it":          {object: runtime("ttl-after-finished", "1d")},
		"as it was, without it":       {old: runtime("ttl-after-finished", "1d"), object: runtime("ttl-after-finished", "1d", "x", "y")},
		"the TTL is removed":          {old: runtime("ttl-after-finished", "1d"), object: runtime()},
		"never":                       {old: runtime("ttl-after-finished", "1d"), object: runtime("ttl-after-finished", "never")},
		"unreadable":                  {old: runtime("ttl-after-finished", "1d"), object: runtime("ttl-after-finished", "soon")},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, judge(runtimeBackfill, &profile, Request{Reached: test.reached}, test.old, test.object), test.want)
		})
	}
	equal(t, judge(runtimeBackfill, policy.JobProfile, Request{}, nil, job().Annotation(wellknown.AnnotationTTL, "1d").Annotation(wellknown.AnnotationBackfill, "true").Map()), nil)
	equal(t, judge(readableValue, &profile, Request{}, nil, runtime("backfill", "yes")), []string{"error " + at("backfill") + `: "yes" is neither "true" nor "false": use one of them`})
	equal(t, judge(readableValue, policy.JobProfile, Request{}, nil, job().Annotation(wellknown.AnnotationBackfill, "yes").Map()), nil)
}

// A namespaced runtime, which a tenant may write, obeys the bounds of what uses it.
func TestBoundsOfARuntime(t *testing.T) {
	runtime := object("TrainingRuntime", map[string]any{"ttlSecondsAfterFinished": int64(60)}, "ttl-after-failed", "9d")
	namespace := func(pairs ...string) Request {
		return Request{Scope: &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated(pairs...), nil)}}
	}
	equal(t, judge(bounds, trainingRuntime, namespace(), nil, runtime), nil)
	equal(t, judge(bounds, trainingRuntime, namespace("min-ttl", "1m", "max-ttl", "9d"), nil, runtime), nil)
	equal(t, judge(bounds, trainingRuntime, namespace("min-ttl", "1h", "max-ttl", "1d"), nil, runtime), []string{
		`error spec.ttlSecondsAfterFinished: 60 (1m) is below curfew.dev/min-ttl 1h of namespace "ci": use 1h or more`,
		"error " + at("ttl-after-failed") + `: 9d is above curfew.dev/max-ttl 1d of namespace "ci": use 1d or less`})
	warned := namespace("max-ttl", "1d", "mode", "warn")
	equal(t, judge(bounds, trainingRuntime, warned, nil, runtime), []string{
		"warning " + at("ttl-after-failed") + `: would be refused (mode warn): 9d is above curfew.dev/max-ttl 1d of namespace "ci": use 1d or less`})
	cluster := *trainingRuntime
	cluster.ClusterScoped = true
	equal(t, judge(bounds, &cluster, namespace("min-ttl", "1h", "max-ttl", "1d"), nil, runtime), nil)
	for mode, severity := range map[resolution.Mode]string{resolution.ModeEnforce: "error", resolution.ModeWarn: "warning"} {
		request := namespace()
		request.Outer = func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy {
			return []*resolution.PlatformPolicy{{Name: "gpu", Mode: mode, Bounds: resolution.ParseNamespace("x", annotated("max-ttl", "1d"), nil).Bounds}}
		}
		equal(t, judge(bounds, trainingRuntime, request, nil, runtime), []string{severity + " " + at("ttl-after-failed") + `: 9d is above curfew.dev/max-ttl 1d of namespace "x": use 1d or less`})
	}
}
