package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/test/builders"
)

// BenchmarkResolve is the cost of one judgement of a finished Job, which the controller pays for
// each change of each object.
func BenchmarkResolve(b *testing.B) {
	since := noon.Add(-24 * time.Hour)
	own := builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).TTL(600).Deadline(60).Complete(noon).Obj()
	bare := builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).Complete(noon).Obj()
	namespace := namespaceSince(since, "default-ttl", "1h", "default-deadline", "1h", "max-ttl", "1d")
	policies := []*resolution.PlatformPolicy{platform("a", "ttl-after-failed", "1h"), platform("b", "ttl-after-finished", "1h"), platform("c")}
	for name, test := range map[string]struct {
		facts *policy.Facts
		scope resolution.Scope
	}{
		"object":    {policy.FactsOfJob(own), resolution.Scope{Namespace: namespace}},
		"namespace": {policy.FactsOfJob(bare), resolution.Scope{Namespace: namespace}},
		"policy":    {policy.FactsOfJob(bare), resolution.Scope{Namespace: namespaceOf(), Policies: policies}},
		"runtime":   {policy.FactsOfJob(own), resolution.Scope{Namespace: namespace, Runtime: &resolution.RuntimePolicy{Name: "torch", TTL: ttls("ttl-after-finished", "1d")}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				effective := resolution.Resolve(test.facts, &test.scope)
				_ = judging.Judge(test.facts, &effective, noon)
			}
		})
	}
}
