package policy_test

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// Curfew knows its own objects by name. A label or owner reference that any author may write makes
// no object immortal.
func TestNoLabelMakesAnObjectCurfews(t *testing.T) {
	job := policy.FactsOfJob(builders.MakeJob("ci", "curfew-controller").Created(noon.Add(-2*time.Hour)).TTL(60).Complete(noon.Add(-time.Hour)).
		Label(wellknown.LabelPartOf, wellknown.PartOfCurfew).Owner(metav1.OwnerReference{APIVersion: "curfew.dev/v1alpha1", Kind: "LifecyclePolicy", Name: "a"}).Obj())
	effective := resolution.Resolve(job, &resolution.Scope{})
	if verdict := judging.Judge(job, &effective, noon); verdict.Action != policy.Delete {
		t.Errorf("a Job that says to be a part of Curfew: %s, %s", verdict.Action, verdict.Reason)
	}
	role := rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	for name, want := range map[string]bool{"curfew-controller": true, "curfew-mine": false} {
		facts := &policy.Facts{Profile: &policy.Profile{Kind: role, ClusterScoped: true}, Name: name, Labels: map[string]string{wellknown.LabelPartOf: wellknown.PartOfCurfew}}
		if got := facts.CurfewsOwn(); got != want {
			t.Errorf("ClusterRole %s is a part of Curfew: %t, want %t", name, got, want)
		}
	}
}

// What docs/install.md has administrators bind in a team's namespace is Curfew's by its name.
func TestRoleBindingsInNamespacesAreCurfews(t *testing.T) {
	for name, want := range map[string]bool{"curfew-controller": true, "curfew-controller-mine": false} {
		facts := &policy.Facts{Profile: &policy.Profile{Kind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding")}, Namespace: "team-a", Name: name, Created: noon.Add(-2 * time.Hour),
			Labels: map[string]string{wellknown.LabelTTL: "1h"}}
		if verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, &resolution.Scope{}, noon); (verdict.Action == policy.Keep) != want {
			t.Errorf("RoleBinding %s: %s, %s; want it kept: %t", name, verdict.Action, verdict.Reason, want)
		}
	}
}
