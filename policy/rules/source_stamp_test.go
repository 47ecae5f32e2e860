package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

func TestSourceStamp(t *testing.T) {
	plain := builders.MakeJob("ci", "a").TTL(3600)
	stamped := builders.MakeJob("ci", "a").TTL(3600).Annotation(policy.AnnotationTTLSource, "namespace/ci")
	other := builders.MakeJob("ci", "a").TTL(3600).Annotation(policy.AnnotationTTLSource, "policy/mine")
	refused := "metadata.annotations[curfew.dev/ttl-source]: is written by Curfew alone: leave it as it is, or remove it"
	for name, test := range map[string]struct {
		old, object map[string]any
		want        string
	}{
		"added":     {old: plain.Map(), object: stamped.Map(), want: refused},
		"changed":   {old: stamped.Map(), object: other.Map(), want: refused},
		"unchanged": {old: stamped.Map(), object: stamped.Map()},
		"removed":   {old: stamped.Map(), object: plain.Map()},
	} {
		t.Run(name, func(t *testing.T) {
			decision := Review(&Request{Operation: Update, Object: test.object, Old: test.old, Scope: &policy.Scope{},
				Facts: policy.FactsOfObject(policy.JobProfile, test.object), OldFacts: policy.FactsOfObject(policy.JobProfile, test.old)})
			if got := decision.Reason(); got != test.want {
				t.Errorf("denied %q, want %q", got, test.want)
			}
		})
	}
}

// Protection binds Curfew alone, and the kind's own controller reads the native field.
func TestProtectedBesideTheNativeField(t *testing.T) {
	object := builders.MakeJob("ci", "a").TTL(3600).Annotation(policy.AnnotationProtect, "true").Map()
	decision := Review(&Request{Operation: Create, Object: object, Scope: &policy.Scope{}, Facts: policy.FactsOfObject(policy.JobProfile, object)})
	warnings := decision.Warnings(true)
	want := "curfew: spec.ttlSecondsAfterFinished: the Job's own controller deletes by this field, whatever curfew.dev/protect says: remove one"
	if len(warnings) != 1 || warnings[0] != want || !decision.Allowed() {
		t.Errorf("allowed %v with %q, want %q", decision.Allowed(), warnings, want)
	}
	namespace := policy.ParseNamespace("ci", map[string]string{policy.AnnotationDefaultTTL: "1d"}, nil)
	scope := &policy.Scope{Namespace: namespace, Creating: true}
	facts := policy.FactsOfObject(policy.JobProfile, builders.MakeJob("ci", "a").Annotation(policy.AnnotationProtect, "true").Map())
	effective := policy.Resolve(facts, scope)
	if filled := policy.Defaults(facts, &effective, scope); len(filled) != 0 {
		t.Errorf("a protected Job is given %v", filled)
	}
}
