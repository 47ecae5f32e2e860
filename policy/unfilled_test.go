package policy_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// Who forges a stamp beside the value of a default is given what the object would be given without
// both. Any other value stays, as the author's: the stamp alone makes it neither longer nor shorter.
func TestUnfilled(t *testing.T) {
	flow := &metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "Flow", Controller: new(true)}
	stamped := func(source string, change func(*builders.JobWrapper)) *policy.Facts {
		job := builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTLSource, source)
		change(job)
		return policy.FactsOfJob(job.Obj())
	}
	native := func(seconds int32) func(*builders.JobWrapper) {
		return func(job *builders.JobWrapper) { job.TTL(seconds) }
	}
	child := stamped("namespace/ci", native(86400))
	child.Owner = flow
	const field, removed = "ttlSecondsAfterFinished", "curfew.dev/ttl-source=<nil>"
	for name, test := range map[string]struct {
		facts *policy.Facts
		max   string
		want  []string
	}{
		"what the source gives":   {facts: stamped("namespace/ci", native(86400)), want: []string{field + "=86400", "curfew.dev/ttl-source=namespace/ci"}},
		"… clamped":               {facts: stamped("namespace/ci", native(3600)), max: "1h", want: []string{field + "=3600", "curfew.dev/ttl-source=namespace/ci"}},
		"… and now not":           {facts: stamped("namespace/ci", native(86400)), max: "1h", want: []string{field + "=3600", "curfew.dev/ttl-source=namespace/ci"}},
		"… to a child":            {facts: child, want: []string{removed, field + "=<nil>"}},
		"… beside another value":  {facts: stamped("namespace/ci", func(job *builders.JobWrapper) { job.TTL(86400).Annotation(wellknown.AnnotationTTLFailed, "2d") }), want: []string{"curfew.dev/ttl-source=object", field + "=<nil>"}},
		"another value":           {facts: stamped("namespace/ci", native(604800)), want: []string{"curfew.dev/ttl-source=object"}},
		"a bound that moves none": {facts: stamped("namespace/ci", native(604800)), max: "7d", want: []string{"curfew.dev/ttl-source=object"}},
		"never":                   {facts: stamped("namespace/ci", func(job *builders.JobWrapper) { job.Annotation(wellknown.AnnotationTTL, "never") }), want: []string{"curfew.dev/ttl-source=object"}},
		"in another form":         {facts: stamped("namespace/ci", func(job *builders.JobWrapper) { job.Annotation(wellknown.AnnotationTTL, "1d") }), want: []string{"curfew.dev/ttl-source=object"}},
		"of another namespace":    {facts: stamped("namespace/other", native(86400)), want: []string{"curfew.dev/ttl-source=object"}},
		"of an unknown policy":    {facts: stamped("policy/p", native(86400)), want: []string{"curfew.dev/ttl-source=object"}},
		"without a value":         {facts: stamped("namespace/ci", func(*builders.JobWrapper) {}), want: []string{field + "=86400", "curfew.dev/ttl-source=namespace/ci"}},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := []string{"default-ttl", "1d"}
			if test.max != "" {
				annotations = append(annotations, "max-ttl", test.max)
			}
			assignments, _ := resolution.FillIn(test.facts, &resolution.Scope{Creating: true, Namespace: namespaceOf(annotations...)}, noon)
			var got []string
			for _, one := range assignments {
				got = append(got, fmt.Sprintf("%s=%v", one.Path[len(one.Path)-1], one.Value))
			}
			equal(t, got, test.want)
		})
	}
}

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
