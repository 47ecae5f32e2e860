package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// A default that decides after the request, because it removes the value and its stamp, is a TTL
// that the request sets.
func TestRemovedValueUncoversADefault(t *testing.T) {
	old := func(value, stamp string) *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTL, value).Annotation(wellknown.AnnotationTTLSource, stamp).Created(noon.Add(-time.Hour)).Complete(noon.Add(-30 * time.Minute))
	}
	plain := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).Complete(noon.Add(-30 * time.Minute))
	}
	for name, c := range map[string]struct {
		old, new *builders.JobWrapper
		asks     bool
	}{
		"never":               {old("never", "object"), plain(), true},
		"a longer TTL":        {old("7d", "object"), plain(), true},
		"the default's value": {old("1m", "namespace/ci"), plain(), false},
		"the stamp stays":     {old("never", "object"), plain().Annotation(wellknown.AnnotationTTLSource, "object"), false},
		"nothing is removed":  {plain(), plain().Annotation("a", "b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationDefaultTTL: "1m"}, nil)
			namespace.Since = noon.Add(-2 * time.Hour)
			request := &Request{Operation: Update, User: User{Name: "jane"}, Object: c.new.Map(), Old: c.old.Map(), Now: noon, Options: Options{RequireDelete: true}, Access: Access{User: No},
				Facts: policy.FactsOfObject(policy.JobProfile, c.new.Map()), OldFacts: policy.FactsOfObject(policy.JobProfile, c.old.Map()), Scope: &resolution.Scope{Namespace: namespace}}
			effective := resolution.Resolve(request.Facts, request.Scope)
			request.Effective = &effective
			if asks := SetsLifetime(request) != nil; asks != c.asks || Review(request).Allowed() == c.asks {
				t.Errorf("asks %t: %v", asks, Review(request).Findings)
			}
		})
	}
}
