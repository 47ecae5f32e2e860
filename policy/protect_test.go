package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestProtects(t *testing.T) {
	patterns := []string{"kube-system", "openshift-*", "*-infra"}
	for namespace, want := range map[string]bool{
		"kube-system": true, "openshift-monitoring": true, "openshift-": true, "ci-infra": true,
		"kube-systems": false, "openshift": false, "my-openshift-x": false, "infra": false, "": false,
	} {
		if got := judging.Protects(patterns, namespace); got != want {
			t.Errorf("%q: %t, want %t", namespace, got, want)
		}
	}
	if judging.Protects(nil, "ci") || !judging.Protects([]string{"["}, "ci") {
		t.Error("no pattern protects, or one that cannot be read does not")
	}
}

func TestProtectedRequest(t *testing.T) {
	for want, patterns := range map[string][]string{
		"": nil,
		`request.?namespace.orValue("") in ["a", "b"]`:                                                  {"a", "b"},
		`request.?namespace.orValue("").matches("^(x-.*|.*\\.y)$")`:                                     {"x-*", "*.y"},
		`request.?namespace.orValue("") in ["a"] || request.?namespace.orValue("").matches("^(x-.*)$")`: {"x-*", "a"},
	} {
		if got := judging.ProtectedRequest(patterns); got != want {
			t.Errorf("%q: %s, want %s", patterns, got, want)
		}
	}
}

// A protected namespace gets no default of any form: the kind's own controller would act on one.
func TestNoDefaultInAProtectedNamespace(t *testing.T) {
	platformPolicy := platform("a", "ttl-after-finished", "1m")
	platformPolicy.Deadline = &lifetime.Setting{Path: "spec.defaults.deadline.value", Text: "1h", TTL: lifetime.TTL{After: time.Hour}}
	platformPolicy.Label = &lifetime.Setting{Path: "spec.defaults.ttlLabel.value", Text: "1h", Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "a"}}
	scope := func(protected bool) *resolution.Scope {
		return &resolution.Scope{Namespace: namespaceOf("default-ttl-failed", "2h", "backfill", "true"), Policies: []*resolution.PlatformPolicy{platformPolicy}, Protected: protected, Creating: true}
	}
	bare := policy.FactsOfJob(builders.MakeJob("kube-system", "a").Obj())
	if filled, _ := resolution.FillIn(bare, scope(false), noon); len(filled) == 0 {
		t.Error("elsewhere it gets no default either")
	}
	if filled, _ := resolution.FillIn(bare, scope(true), noon); len(filled) > 0 {
		t.Errorf("it gets %v", filled)
	}
	own := policy.FactsOfJob(builders.MakeJob("kube-system", "a").TTL(60).Annotation(wellknown.AnnotationActiveDeadline, "1h").Obj())
	if filled, _ := resolution.FillIn(own, scope(true), noon); len(filled) != 1 || filled[0].Path[2] != wellknown.AnnotationTTLSource {
		t.Errorf("beside its own values it gets %v, want the stamp alone", filled)
	}
	existing := scope(true)
	existing.Creating = false
	finished := policy.FactsOfJob(builders.MakeJob("kube-system", "a").Created(noon.Add(-3 * time.Hour)).Complete(noon.Add(-2 * time.Hour)).Obj())
	effective := resolution.Resolve(finished, existing)
	if verdict := judging.Judge(finished, &effective, noon); verdict.Action != policy.Keep || verdict.Reason != "has no TTL" {
		t.Errorf("the verdict is %s, %q; want it kept without a TTL", verdict.Action, verdict.Reason)
	}
}
