package policy_test

import (
	"fmt"
	"slices"
	"strings"
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
			for _, assignment := range assignments {
				got = append(got, fmt.Sprintf("%s=%v", assignment.Path[len(assignment.Path)-1], assignment.Value))
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
		"changed for one outcome":          {old: stamped().Map(), object: stamped().Annotation(wellknown.AnnotationTTLFailed, "never").Map(), want: []string{ttl, "spec.ttlSecondsAfterFinished"}},
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
			assignments, _ := resolution.Restamp(policy.FactsOfObject(policy.JobProfile, test.old), policy.FactsOfObject(policy.JobProfile, test.object))
			for _, assignment := range assignments {
				if assignment.Value != "object" && assignment.Value != nil {
					t.Errorf("%s becomes %v", assignment.Path, assignment.Value)
				}
				got = append(got, assignment.Path.String())
			}
			equal(t, got, test.want)
		})
	}
}

// The annotation and the native field of a deadline are one value: what Curfew filled in or copied
// follows what the author changes.
func TestRestampOfADeadlineInAnotherField(t *testing.T) {
	both := *pipelineRun
	both.AnnotatedDeadline = true
	immutable := both
	immutable.ImmutableDeadline = true
	const stamp, key, native = wellknown.AnnotationDeadlineSource, wellknown.AnnotationActiveDeadline, "spec.timeouts.pipeline"
	facts := func(profile *policy.Profile, timeout any, annotations ...string) *policy.Facts {
		object, all := pipelineRunWith(timeout), map[string]any{}
		for i := 0; i < len(annotations); i += 2 {
			all[annotations[i]] = annotations[i+1]
		}
		object["metadata"].(map[string]any)["annotations"] = all
		return policy.FactsOfObject(profile, object)
	}
	for name, test := range map[string]struct {
		profile    *policy.Profile
		old        []string // the native field, and annotations
		updated    []string
		want, fill []string
	}{
		"beside a default":       {&both, []string{"2h0m0s", stamp, "namespace/ci"}, []string{"2h0m0s", stamp, "namespace/ci", key, "1h"}, []string{native + "=1h0m0s", stamp + "=object"}, nil},
		"changed beside a copy":  {&both, []string{"2h0m0s", stamp, "object", key, "2h"}, []string{"2h0m0s", stamp, "object", key, "1h"}, []string{native + "=1h0m0s"}, nil},
		"removed beside a copy":  {&both, []string{"2h0m0s", stamp, "object", key, "2h"}, []string{"2h0m0s", stamp, "object"}, []string{native + "=<nil>"}, []string{native + "=3h0m0s", stamp + "=namespace/ci"}},
		"changed beside its own": {&both, []string{"2h0m0s", key, "2h"}, []string{"2h0m0s", key, "1h"}, nil, nil},
		"removed default":        {&both, []string{"2h0m0s", stamp, "namespace/ci"}, []string{"", stamp, "namespace/ci"}, nil, []string{native + "=3h0m0s", stamp + "=namespace/ci"}},
		"removed longer default": {&both, []string{"4h0m0s", stamp, "namespace/ci"}, []string{""}, nil, []string{native + "=4h0m0s", stamp + "=namespace/ci"}},
		"removed own":            {&both, []string{"2h0m0s"}, []string{""}, nil, nil},
		"immutable, removed":     {&immutable, []string{"2h0m0s", stamp, "namespace/ci"}, []string{""}, nil, []string{native + "=2h0m0s", stamp + "=namespace/ci"}},
		"immutable, changed":     {&immutable, []string{"2h0m0s", stamp, "namespace/ci"}, []string{"2h0m0s", stamp, "namespace/ci", key, "1h"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			withState := func(state []string) *policy.Facts {
				if state[0] == "" {
					return facts(test.profile, nil, state[1:]...)
				}
				return facts(test.profile, state[0], state[1:]...)
			}
			text := func(assignments []resolution.Assignment) (out []string) {
				for _, assignment := range assignments {
					out = append(out, fmt.Sprintf("%s=%v", strings.TrimPrefix(assignment.Path.String(), "metadata.annotations."), assignment.Value))
				}
				slices.Sort(out)
				return out
			}
			old := withState(test.old)
			assignments, updated := resolution.Restamp(old, withState(test.updated))
			slices.Sort(test.want)
			equal(t, text(assignments), test.want)
			slices.Sort(test.fill)
			equal(t, text(resolution.Refill(nil, old, updated, &resolution.Scope{Creating: true, Namespace: namespaceOf("default-deadline", "3h")})), test.fill)
		})
	}
}
