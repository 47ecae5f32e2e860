package manifests

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// TestFeaturesAreAggregatedToTheControllerAlone: the role of each feature is named after its label,
// reaches the controller's role, and does not reach the role that cleanup policies delete by.
func TestFeaturesAreAggregatedToTheControllerAlone(t *testing.T) {
	roles := only[*rbacv1.ClusterRole](build(t, "base"))
	selectors := map[string]labels.Selector{}
	for _, role := range roles {
		if role.AggregationRule == nil {
			continue
		}
		if role.Rules != nil {
			t.Errorf("%s: a list of rules would replace the aggregated one whenever it is applied again", role.Name)
		}
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[0])
		if err != nil || len(role.AggregationRule.ClusterRoleSelectors) != 1 {
			t.Fatalf("%s: %v (%v)", role.Name, role.AggregationRule, err)
		}
		selectors[role.Name] = selector
	}
	if len(selectors) != 2 {
		t.Fatalf("aggregated are %v", selectors)
	}
	var features []string
	for _, role := range roles {
		feature, ok := role.Labels[wellknown.LabelFeature]
		if ok != selectors["curfew-controller"].Matches(labels.Set(role.Labels)) || ok && role.Name != "curfew-controller-"+feature {
			t.Errorf("%s: label %q", role.Name, feature)
		}
		if ok {
			features = append(features, feature)
			if selectors["curfew-controller-kinds"].Matches(labels.Set(role.Labels)) {
				t.Errorf("%s reaches curfew-cleanup", role.Name)
			}
		}
	}
	slices.Sort(features)
	if want := []string{"cleanup", "core", "deadlines", "deletion", "runtimes", "tally", "webhooks"}; !slices.Equal(features, want) {
		t.Errorf("features %v, want %v", features, want)
	}
}

// TestPausesAreGrantedOnPurpose: no aggregated role contains DeletionPauses, not even that of the
// controller, and only curfew-pause writes them.
func TestPausesAreGrantedOnPurpose(t *testing.T) {
	writers := []string(nil)
	for _, role := range only[*rbacv1.ClusterRole](build(t, "base")) {
		aggregated := false
		for label := range role.Labels {
			aggregated = aggregated || strings.Contains(label, "aggregate-to") || label == wellknown.LabelFeature
		}
		for _, rule := range role.Rules {
			if !slices.Contains(rule.Resources, v1alpha1.DeletionPauses) && !slices.Contains(rule.Resources, "*") {
				continue
			}
			if aggregated {
				t.Errorf("%s is aggregated and has DeletionPauses", role.Name)
			}
			if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }) {
				writers = append(writers, role.Name)
			}
		}
	}
	if !slices.Equal(writers, []string{"curfew-pause"}) {
		t.Errorf("%v may write DeletionPauses", writers)
	}
}

// TestWebhookConfigurationsAreKept: Curfew may not delete webhook configurations, and with component
// precreated-webhooks it may not create any, but fills in those that it is given empty.
func TestWebhookConfigurationsAreKept(t *testing.T) {
	for name, verbs := range map[string][]string{"cert-manager": {"create", "update"}, "precreated-webhooks": {"update"}} {
		objects := component(t, name)
		for _, verb := range []string{"create", "update", "delete"} {
			may := slices.ContainsFunc(only[*rbacv1.ClusterRole](objects), func(role *rbacv1.ClusterRole) bool {
				return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
					return slices.Contains(rule.Verbs, verb) && slices.Contains(rule.APIGroups, admissionv1.GroupName)
				})
			})
			if may != slices.Contains(verbs, verb) {
				t.Errorf("%s: Curfew may %s webhook configurations: %t", name, verb, may)
			}
		}
	}
	for _, c := range only[*admissionv1.ValidatingWebhookConfiguration](component(t, "precreated-webhooks")) {
		if c.Name == webhookconfig.Name && c.Webhooks != nil {
			t.Errorf("%s has a list that applying it again would bring back", c.Name)
		}
	}
}
