package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// The kind's own controller reads its field alone, by the outcome where there are several.
func TestNativeDeletion(t *testing.T) {
	hour := noon.Add(time.Hour)
	workflow := *policy.JobProfile
	workflow.Kind.Group, workflow.Kind.Kind = "argoproj.io", "Workflow"
	workflow.TTLSucceeded, workflow.TTLFailed = fieldpath.MustFieldPath("spec.afterSuccess"), fieldpath.MustFieldPath("spec.afterFailure")
	spec := func(fields map[string]any, jobWrapper *builders.JobWrapper) map[string]any {
		out := jobWrapper.Map()
		if out["spec"] == nil {
			out["spec"] = map[string]any{}
		}
		for key, value := range fields {
			out["spec"].(map[string]any)[key] = value
		}
		return out
	}
	job := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)) }
	for name, test := range map[string]struct {
		profile *policy.Profile
		object  map[string]any
		path    string
		expiry  time.Time
		open    bool
	}{
		"no field":              {policy.JobProfile, job().Annotation(wellknown.AnnotationTTL, "1h").Complete(noon).Map(), "", time.Time{}, false},
		"finished":              {policy.JobProfile, job().TTL(3600).Complete(noon).Map(), "spec.ttlSecondsAfterFinished", hour, false},
		"finished, and guarded": {policy.JobProfile, job().TTL(3600).Annotation(wellknown.AnnotationProtect, "true").Annotation(wellknown.AnnotationTTL, "never").Complete(noon).Map(), "spec.ttlSecondsAfterFinished", hour, false},
		"no finish time":        {policy.JobProfile, job().TTL(3600).Complete(time.Time{}).Map(), "", time.Time{}, false},
		"not finished":          {policy.JobProfile, job().TTL(3600).Map(), "spec.ttlSecondsAfterFinished", time.Time{}, false},
		"not a number":          {policy.JobProfile, spec(map[string]any{"ttlSecondsAfterFinished": "soon"}, job().Complete(noon)), "", time.Time{}, false},
		"by outcome":            {&workflow, spec(map[string]any{"afterSuccess": int64(3600)}, job().TTL(60).Complete(noon)), "spec.afterSuccess", hour, false},
		"by the other outcome":  {&workflow, spec(map[string]any{"afterFailure": int64(60)}, job().TTL(3600).Complete(noon)), "spec.ttlSecondsAfterFinished", hour, false},
		"by the other alone":    {&workflow, spec(map[string]any{"afterFailure": int64(60)}, job().Complete(noon)), "", time.Time{}, false},
		"the longer one":        {&workflow, spec(map[string]any{"afterSuccess": int64(60), "afterFailure": int64(120)}, job()), "spec.afterFailure", time.Time{}, true},
		"one outcome alone":     {&workflow, spec(map[string]any{"afterFailure": int64(120)}, job()), "spec.afterFailure", time.Time{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			have := resolution.NativeDeletionOf(policy.FactsOfObject(test.profile, test.object))
			if have == nil {
				if test.path != "" {
					t.Error("nothing follows from it")
				}
				return
			}
			if have.Setting.Path != test.path || !have.Expiry.Equal(test.expiry) || have.ByOutcome != test.open {
				t.Errorf("%s at %s (by outcome: %t)", have.Setting.Path, have.Expiry, have.ByOutcome)
			}
		})
	}
}
