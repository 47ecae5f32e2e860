package rules

import (
	"testing"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestNamespaceValues(t *testing.T) {
	namespace := func(pairs ...string) map[string]any {
		w := builders.MakeNamespace("ci")
		for key, value := range annotated(pairs...) {
			w.Annotation(key, value)
		}
		return w.Map()
	}
	bound := func(name, text string) *lifetime.Setting {
		ttl, err := lifetime.ParseTTL(text)
		return &lifetime.Setting{Path: "spec.bounds." + name, Text: text, TTL: ttl, Err: err, Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "platform"}}
	}
	outer := func(bounds lifetime.Bounds, mode resolution.Mode) []*resolution.PlatformPolicy {
		return []*resolution.PlatformPolicy{{Name: "platform", Bounds: bounds, Mode: mode}}
	}
	maximum, minimum := lifetime.Bounds{TTL: lifetime.Range{Max: bound("maxTTL", "1h")}}, lifetime.Bounds{Deadline: lifetime.Range{Min: bound("minDeadline", "1h")}}
	run(t, namespaceValues, map[string]row{
		"nothing":  {object: namespace()},
		"readable": {object: namespace("default-ttl", "1d", "min-ttl", "1m", "max-ttl", "7d", "mode", "warn", "backfill", "false")},
		"a Job":    {object: job().Annotation(wellknown.AnnotationDefaultTTL, "soon").Map()},
		"ttl": {object: namespace("default-ttl", "soon"),
			want: []string{"error " + at("default-ttl") + `: "soon" is not a duration: ` + durations + ", or never"}},
		"mode": {object: namespace("mode", "audit"), want: []string{"error " + at("mode") + `: "audit" is not a mode: use enforce, warn or dry-run`}},
		// The mode of the namespace itself does not soften its own faults.
		"in dry-run":  {object: namespace("mode", "dry-run", "backfill", "yes"), want: []string{"error " + at("backfill") + `: "yes" is neither "true" nor "false": use one of them`}},
		"min and max": {object: namespace("min-ttl", "2h", "max-ttl", "1h"), want: []string{"error " + at("min-ttl") + `: 2h is above curfew.dev/max-ttl 1h: lower it, or raise the other`}},
		"min and a policy's max": {object: namespace("min-ttl", "2h"), policies: outer(maximum, resolution.ModeEnforce),
			want: []string{"error " + at("min-ttl") + `: 2h is above maxTTL 1h of policy "platform": lower it, or raise the other`}},
		"max and a policy's min": {object: namespace("max-deadline", "1m"), policies: outer(minimum, resolution.ModeEnforce),
			want: []string{"error " + at("max-deadline") + `: 1m is below minDeadline 1h of policy "platform": raise it, or lower the other`}},
		"a policy that only warns": {object: namespace("max-deadline", "1m"), policies: outer(minimum, resolution.ModeWarn),
			want: []string{"warning " + at("max-deadline") + `: 1m is below minDeadline 1h of policy "platform": raise it, or lower the other`}},
		"a policy in dry-run": {object: namespace("max-deadline", "1m"), policies: outer(minimum, resolution.ModeDryRun),
			want: []string{"warning " + at("max-deadline") + `: would be refused (mode DryRun): 1m is below minDeadline 1h of policy "platform": raise it, or lower the other`}},
		"within a policy's": {object: namespace("min-ttl", "1h", "min-deadline", "30m"), policies: outer(maximum, resolution.ModeEnforce)},
		"unrelated update under a policy that came later": {old: namespace("min-ttl", "2h"), object: namespace("min-ttl", "2h", "backfill", "true"), policies: outer(maximum, resolution.ModeEnforce)},
		"a policy at odds with itself":                    {object: namespace("default-ttl", "1h"), policies: outer(lifetime.Bounds{TTL: lifetime.Range{Min: bound("minTTL", "2h"), Max: maximum.TTL.Max}}, resolution.ModeEnforce)},
		"short": {object: namespace("default-ttl", "5", "default-pod-ttl", "0"), want: []string{
			"warning " + at("default-ttl") + ": 5 (5s) is under 60s: a Job or Pod may be deleted before anyone reads its logs; use 60s or more",
			"warning " + at("default-pod-ttl") + ": 0 (0s) is under 60s: a Job or Pod may be deleted before anyone reads its logs; use 60s or more",
		}},
		"unchanged":     {old: namespace("default-ttl", "soon"), object: namespace("default-ttl", "soon", "mode", "warn")},
		"being deleted": {old: namespace(), object: builders.MakeNamespace("ci").Annotation(wellknown.AnnotationDefaultTTL, "soon").Deleting(noon).Map()},
	})
}
