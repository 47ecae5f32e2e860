package policy_test

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// A default that is changed is the author's; one that is removed leaves its stamp, which says that
// the object is to have none.
func TestRestamp(t *testing.T) {
	stamped := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationTTLSource, "namespace/ci")
	}
	deadline := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Deadline(3600).Annotation(wellknown.AnnotationDeadlineSource, "policy/platform")
	}
	const ttl, stop = "metadata.annotations.curfew.dev/ttl-source", "metadata.annotations.curfew.dev/deadline-source"
	for name, test := range map[string]struct {
		old, object map[string]any
		want        []string
	}{
		"unchanged":                        {old: stamped().Map(), object: stamped().Label("a", "b").Map()},
		"changed":                          {old: stamped().Map(), object: stamped().TTL(7200).Map(), want: []string{ttl}},
		"changed for one outcome":          {old: stamped().Map(), object: stamped().Annotation(wellknown.AnnotationTTLFailed, "never").Map(), want: []string{ttl}},
		"changed to what cannot be read":   {old: stamped().Map(), object: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTL, "soon").Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), want: []string{ttl}},
		"changed, and the stamp removed":   {old: stamped().Map(), object: builders.MakeJob("ci", "a").TTL(7200).Map(), want: []string{ttl}},
		"changed, and the stamp corrected": {old: stamped().Map(), object: builders.MakeJob("ci", "a").TTL(7200).Annotation(wellknown.AnnotationTTLSource, "object").Map()},
		"written otherwise":                {old: stamped().Map(), object: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTL, "1h").Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map()},
		"removed":                          {old: stamped().Map(), object: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map()},
		"its author's own":                 {old: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "object").Map(), object: builders.MakeJob("ci", "a").TTL(90).Annotation(wellknown.AnnotationTTLSource, "object").Map()},
		"a deadline":                       {old: deadline().Map(), object: deadline().Deadline(60).Map(), want: []string{stop}},
		"a deadline, removed":              {old: deadline().Map(), object: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationDeadlineSource, "policy/platform").Map()},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, assignment := range resolution.Restamp(policy.FactsOfObject(policy.JobProfile, test.old), policy.FactsOfObject(policy.JobProfile, test.object)) {
				if assignment.Value != "object" {
					t.Errorf("%s becomes %v", assignment.Path, assignment.Value)
				}
				got = append(got, assignment.Path.String())
			}
			equal(t, got, test.want)
		})
	}
}
