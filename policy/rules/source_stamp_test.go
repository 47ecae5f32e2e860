package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestSourceStamp(t *testing.T) {
	plain := builders.MakeJob("ci", "a").TTL(3600)
	stamped := builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationTTLSource, "namespace/ci")
	other := builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationTTLSource, "policy/mine")
	refused := "metadata.annotations[curfew.dev/ttl-source]: may only be written by Curfew: leave it unchanged, or remove it"
	for name, test := range map[string]struct {
		old, object map[string]any
		want        string
	}{
		"added":                  {old: plain.Map(), object: stamped.Map(), want: refused},
		"changed":                {old: stamped.Map(), object: other.Map(), want: refused},
		"unchanged":              {old: stamped.Map(), object: stamped.Map()},
		"removed":                {old: stamped.Map(), object: plain.Map()},
		"corrected":              {old: stamped.Map(), object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "object").Map()},
		"added, as the object's": {old: plain.Map(), object: builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationTTLSource, "object").Map(), want: refused},
	} {
		t.Run(name, func(t *testing.T) {
			decision := Review(&Request{Operation: Update, Object: test.object, Old: test.old, Scope: &resolution.Scope{},
				Facts: policy.FactsOfObject(policy.JobProfile, test.object), OldFacts: policy.FactsOfObject(policy.JobProfile, test.old)})
			if got := decision.Reason(); got != test.want {
				t.Errorf("denied %q, want %q", got, test.want)
			}
		})
	}
}

// Protection binds Curfew alone, and the kind's own controller reads the native field.
func TestProtectedBesideTheNativeField(t *testing.T) {
	object := builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationProtect, "true").Map()
	decision := Review(&Request{Operation: Create, Object: object, Scope: &resolution.Scope{}, Facts: policy.FactsOfObject(policy.JobProfile, object)})
	warnings := decision.Warnings(true)
	want := "curfew: spec.ttlSecondsAfterFinished: the Job's own controller deletes by this field, whatever curfew.dev/protect says: remove one"
	if len(warnings) != 1 || warnings[0] != want || !decision.Allowed() {
		t.Errorf("allowed %v with %q, want %q", decision.Allowed(), warnings, want)
	}
	namespace := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationDefaultTTL: "1d"}, nil)
	scope := &resolution.Scope{Namespace: namespace, Creating: true}
	facts := policy.FactsOfObject(policy.JobProfile, builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationProtect, "true").Map())
	effective := resolution.Resolve(facts, scope)
	if filled := resolution.Defaults(facts, &effective, scope); len(filled) != 0 {
		t.Errorf("a protected Job is given %v", filled)
	}
}

// A stamp that Curfew would not write makes nothing of a new object's TTL that it is not: the
// author is asked for the permission, warned, and announced no default. The rule refuses no
// request.
func TestForgedStampOnCreate(t *testing.T) {
	platform := &resolution.PlatformPolicy{Name: "platform", TTL: (&policy.Facts{Profile: policy.JobProfile, Annotations: map[string]string{wellknown.AnnotationTTL: "1m"}}).TTLs()}
	for name, test := range map[string]struct {
		object    map[string]any
		namespace []string
		policies  []*resolution.PlatformPolicy
		filled    *resolution.Scope
		// stamped means that Curfew wrote the stamp.
		stamped bool
	}{
		"no stamp":                       {object: builders.MakeJob("ci", "a").TTL(0).Map()},
		"of a policy that is not there":  {object: builders.MakeJob("ci", "a").TTL(0).Annotation(wellknown.AnnotationTTLSource, "policy/x").Map()},
		"of a runtime without one":       {object: builders.MakeJob("ci", "a").TTL(0).Annotation(wellknown.AnnotationTTLSource, "runtime/x").Map()},
		"of another namespace":           {object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/other").Map(), namespace: []string{wellknown.AnnotationDefaultTTL, "1m"}},
		"of its namespace":               {object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: []string{wellknown.AnnotationDefaultTTL, "1m"}, stamped: true},
		"of its namespace, another TTL":  {object: builders.MakeJob("ci", "a").TTL(59).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: []string{wellknown.AnnotationDefaultTTL, "1m"}},
		"of its namespace, in dry-run":   {object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: []string{wellknown.AnnotationDefaultTTL, "1m", wellknown.AnnotationMode, "dry-run"}},
		"of its namespace, and one more": {object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLFailed, "1s").Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: []string{wellknown.AnnotationDefaultTTL, "1m"}},
		"of a policy":                    {object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "policy/platform").Map(), policies: []*resolution.PlatformPolicy{platform}, stamped: true},
		"of a policy that matched before its defaults were filled in": {object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "policy/platform").Map(),
			filled: &resolution.Scope{Policies: []*resolution.PlatformPolicy{platform}}, stamped: true},
		"of a policy below the namespace": {object: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "policy/platform").Map(), policies: []*resolution.PlatformPolicy{platform}, namespace: []string{wellknown.AnnotationDefaultTTL, "2m"}},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			for i := 0; i < len(test.namespace); i += 2 {
				annotations[test.namespace[i]] = test.namespace[i+1]
			}
			request := &Request{Operation: Create, Object: test.object, Facts: policy.FactsOfObject(policy.JobProfile, test.object), Filled: test.filled, Now: noon,
				Scope:   &resolution.Scope{Creating: true, Namespace: resolution.ParseNamespace("ci", annotations, nil), Policies: test.policies},
				Options: Options{RequireDelete: true, WarnBelow: 2 * time.Minute}, Access: Access{User: No}}
			effective := resolution.Resolve(request.Facts, request.Scope)
			request.Effective = &effective
			if asked := SetsLifetime(request) != nil; asked == test.stamped {
				t.Errorf("the author is asked for the permission: %v", asked)
			}
			decision := Review(request)
			if decision.Allowed() != test.stamped {
				t.Errorf("allowed %v: %s", decision.Allowed(), decision.Reason())
			}
			if announced := len(decision.Defaults) > 0 && !decision.Defaults[0].DryRun; announced != test.stamped {
				t.Errorf("announced: %v", decision.Defaults)
			}
			if (decision.Source == "object") == test.stamped {
				t.Errorf("source %q", decision.Source)
			}
			short := false
			for _, finding := range decision.Findings {
				short = short || finding.Rule == shortTTL.Name
				if finding.Rule == sourceStamp.Name && finding.Severity == Deny {
					t.Errorf("denied: %s", finding)
				}
			}
			if short == test.stamped {
				t.Errorf("warned of a short TTL: %v", short)
			}
		})
	}
	forged := builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationDeadlineSource, "namespace/ci").Map()
	decision := review(row{object: forged, namespace: annotated("default-ttl", "1d")})
	want := "curfew: metadata.annotations[curfew.dev/deadline-source]: was not written by Curfew, so the value counts as yours: remove it"
	equal(t, decision.Warnings(true), []string{want})
}
