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
		"a Job": {object: job().Annotation(wellknown.AnnotationDefaultTTL, "soon").Map()},
		// The mode of the namespace itself does not soften its own faults.
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
		"unchanged":                                       {old: namespace("default-ttl", "soon"), object: namespace("default-ttl", "soon", "mode", "warn")},
	})
}
