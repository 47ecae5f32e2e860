package rules_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestAccessRules(t *testing.T) {
	mine := builders.MakeJob("ci", "a").TTL(3600)
	stamped := builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationTTLSource, "namespace/ci")
	plain := plainly()
	user := `spec.ttlSecondsAfterFinished: sets when this Job is deleted, but you may not delete it yourself: ask for the verb delete on jobs.batch in namespace "ci"`
	controller := `spec.ttlSecondsAfterFinished: Curfew's controller lacks the permission to delete a Job in namespace "ci": it stays until an admin grants that`
	for name, test := range map[string]struct {
		object, old map[string]any
		namespace   *resolution.NamespacePolicy
		access      rules.Access
		require     bool
		denied      string
		warnings    []string
	}{
		"both may":             {object: mine.Map(), access: rules.Access{User: rules.Yes, Controller: rules.Yes}},
		"nothing asked":        {object: mine.Map()},
		"user may not":         {object: mine.Map(), access: rules.Access{User: rules.No}, warnings: []string{"curfew: " + user}},
		"user may not, strict": {object: mine.Map(), access: rules.Access{User: rules.No}, require: true, denied: user},
		"controller may not":   {object: mine.Map(), access: rules.Access{Controller: rules.No}, warnings: []string{"curfew: " + controller}},
		"a default filled in":  {object: stamped.Map(), namespace: resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationDefaultTTL: "1h"}, nil), access: rules.Access{User: rules.No, Controller: rules.No}},
		"no TTL":               {object: plain.Map(), access: rules.Access{User: rules.No, Controller: rules.No}},
		"unchanged":            {object: mine.Map(), old: mine.Map(), access: rules.Access{User: rules.No}, require: true},
		"added":                {object: mine.Map(), old: plain.Map(), access: rules.Access{User: rules.No}, require: true, denied: user},
		"what came before it is taken away": {object: mine.Map(), old: builders.MakeJob("ci", "a").TTL(3600).Annotation(wellknown.AnnotationTTLFailed, "never").Map(),
			access: rules.Access{User: rules.No}, require: true, denied: user},
		"what came after it is taken away": {object: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTL, "never").Map(),
			old: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTL, "never").TTL(3600).Map(), access: rules.Access{User: rules.No}, require: true},
		"label that cannot be read": {object: plainly().Label(wellknown.LabelTTL, "soon").Map(), access: rules.Access{Controller: rules.No},
			warnings: []string{`curfew: metadata.labels[curfew.dev/ttl]: "soon" is neither a duration nor a date: ` + `use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`}},
		"label": {object: builders.MakeJob("ci", "a").Label(wellknown.LabelTTL, "1h").Map(), access: rules.Access{User: rules.No},
			warnings: []string{`curfew: metadata.labels[curfew.dev/ttl]: sets when this Job is deleted, but you may not delete it yourself: ask for the verb delete on jobs.batch in namespace "ci"`}},
	} {
		t.Run(name, func(t *testing.T) {
			request := &rules.Request{Operation: rules.Create, Object: test.object, Facts: policy.FactsOfObject(policy.JobProfile, test.object),
				Scope: &resolution.Scope{Namespace: test.namespace}, Access: test.access, Options: rules.Options{RequireDelete: test.require}}
			if test.old != nil {
				request.Operation, request.Old, request.OldFacts = rules.Update, test.old, policy.FactsOfObject(policy.JobProfile, test.old)
			}
			decision := rules.Review(request)
			if got := decision.Reason(); got != test.denied {
				t.Errorf("denied %q, want %q", got, test.denied)
			}
			warnings := decision.Warnings(false)
			if len(warnings) != len(test.warnings) {
				t.Fatalf("warnings %q, want %q", warnings, test.warnings)
			}
			for i := range warnings {
				if warnings[i] != test.warnings[i] {
					t.Errorf("warning %q, want %q", warnings[i], test.warnings[i])
				}
			}
		})
	}
}

func plainly() *builders.JobWrapper { return builders.MakeJob("ci", "a") }

// A TTL after finished on an object that never finishes has no effect. No rule checks who may
// delete the object.
func TestNoReviewForATTLWithoutEffect(t *testing.T) {
	annotated := builders.MakeCronJob("ci", "a").Annotation(wellknown.AnnotationTTL, "1h").Map()
	labelled := builders.MakeCronJob("ci", "a").Label(wellknown.LabelTTL, "1h").Map()
	profile := policy.NewProfiles(policy.BuiltinProfiles()...).For(batchv1.SchemeGroupVersion.WithKind("CronJob"))
	ask := func(object map[string]any) *rules.Lifetime {
		return rules.SetsLifetime(&rules.Request{Operation: rules.Create, Object: object, Facts: policy.FactsOfObject(profile, object), Scope: &resolution.Scope{}})
	}
	if got := ask(annotated); got != nil {
		t.Errorf("asked about %s", got.Path)
	}
	if got := ask(labelled); got == nil {
		t.Error("a TTL label on a CronJob sets when it goes")
	}
}
