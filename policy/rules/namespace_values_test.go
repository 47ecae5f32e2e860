package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
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
	outer := &policy.PlatformPolicy{Name: "platform", Bounds: policy.ParseNamespace("outer", annotated("max-ttl", "1h"), nil).Bounds}
	run(t, namespaceValues, map[string]row{
		"nothing":  {object: namespace()},
		"readable": {object: namespace("default-ttl", "1d", "min-ttl", "1m", "max-ttl", "7d", "mode", "warn", "backfill", "false")},
		"a Job":    {object: job().Annotation(policy.AnnotationDefaultTTL, "soon").Map()},
		"ttl": {object: namespace("default-ttl", "soon"),
			want: []string{"error " + at("default-ttl") + `: "soon" is not a duration: ` + durations + ", or never"}},
		"mode": {object: namespace("mode", "audit"), want: []string{"error " + at("mode") + `: "audit" is no mode: use enforce, warn or dry-run`}},
		// The mode of the namespace itself does not soften what is wrong with it.
		"in dry-run":  {object: namespace("mode", "dry-run", "backfill", "yes"), want: []string{"error " + at("backfill") + `: "yes" is neither "true" nor "false": use one of them`}},
		"min and max": {object: namespace("min-ttl", "2h", "max-ttl", "1h"), want: []string{`error metadata.annotations: curfew.dev/min-ttl 2h of namespace "ci" is above curfew.dev/max-ttl 1h of namespace "ci": lower the first or raise the second`}},
		"min and the platform's max": {object: namespace("min-ttl", "2h"), policies: []*policy.PlatformPolicy{outer},
			want: []string{`error metadata.annotations: curfew.dev/min-ttl 2h of namespace "ci" is above curfew.dev/max-ttl 1h of namespace "outer": lower the first or raise the second`}},
		"short": {object: namespace("default-ttl", "5", "default-pod-ttl", "0"), want: []string{
			"warning " + at("default-ttl") + ": 5s is under 60s: a Job or Pod may be gone before anyone reads its logs; use 60s or more",
			"warning " + at("default-pod-ttl") + ": 0s is under 60s: a Job or Pod may be gone before anyone reads its logs; use 60s or more",
		}},
		"unchanged":     {old: namespace("default-ttl", "soon"), object: namespace("default-ttl", "soon", "mode", "warn")},
		"being deleted": {old: namespace(), object: builders.MakeNamespace("ci").Annotation(policy.AnnotationDefaultTTL, "soon").Deleting(noon).Map()},
	})
}
