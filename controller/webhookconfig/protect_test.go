package webhookconfig

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// New objects in namespaces of --protect are not sent for defaults. With --fail-closed nothing is
// sent there that an outage would refuse. Patterns become match conditions.
func TestProtectedNamespacesAreLeftOut(t *testing.T) {
	input := &Input{Namespace: "curfew-system", Protect: []string{"curfew-system", "kube-system", "openshift-*", "*.x"},
		Policies: []*v1alpha1.LifecyclePolicy{{Spec: v1alpha1.LifecyclePolicySpec{Defaults: &v1alpha1.Defaults{TTL: &v1alpha1.TTLValue{}}}}}}
	leftOut := func(e admissionv1.MutatingWebhook) bool {
		names := slices.ContainsFunc(e.NamespaceSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Operator == metav1.LabelSelectorOpNotIn && slices.Equal(r.Values, []string{"curfew-system", "kube-system"})
		})
		patterns := slices.Contains(e.MatchConditions, admissionv1.MatchCondition{Name: "not-protected", Expression: `!request.?namespace.orValue("").matches("^(openshift-.*|.*\\.x)$")`})
		if names != patterns {
			t.Errorf("%s: names are left out: %t, patterns: %t", e.Name, names, patterns)
		}
		return names
	}
	for _, closed := range []bool{false, true} {
		input.FailClosed = closed
		plan := newPlan(input)
		if !slices.ContainsFunc(plan.mutating, func(e admissionv1.MutatingWebhook) bool { return strings.HasPrefix(e.Name, "policies") }) || len(plan.validating) == 0 {
			t.Fatalf("the plan has %d and %d webhooks", len(plan.mutating), len(plan.validating))
		}
		for _, e := range plan.mutating {
			if !leftOut(e) {
				t.Errorf("%s sends objects of protected namespaces", e.Name)
			}
		}
		for _, e := range plan.validating {
			if leftOut(e) != closed {
				t.Errorf("%s, fail closed %t: protected namespaces are left out: %t", e.Name, closed, !closed)
			}
		}
	}
}
