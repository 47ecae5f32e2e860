package manifests

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// wish is a request that a thief of a token would like to send.
type wish struct{ verb, group, resource, name string }

const (
	registration = "admissionregistration.k8s.io"
	rbacGroup    = rbacv1.GroupName
)

// notForAnyToken are ways to read secrets, to run code, to gain permissions, or to change the rules.
var notForAnyToken = []wish{
	{"list", "", "secrets", ""}, {"watch", "", "secrets", ""}, {"delete", "", "secrets", ""}, {"get", "", "secrets", "db"}, {"list", "", "configmaps", ""},
	{"create", "", "pods", ""}, {"update", "", "pods", ""}, {"create", "", "pods/exec", ""}, {"get", "", "pods/log", ""}, {"patch", "", "pods/ephemeralcontainers", ""},
	{"create", "apps", "deployments", ""}, {"patch", "apps", "deployments", ""}, {"patch", "apps", "daemonsets", ""}, {"create", "batch", "jobs", ""}, {"patch", "batch", "cronjobs", ""},
	{"create", "", "serviceaccounts/token", ""}, {"impersonate", "", "users", ""}, {"impersonate", "", "groups", ""}, {"impersonate", "", "serviceaccounts", "default"},
	{"create", rbacGroup, "clusterrolebindings", ""}, {"patch", rbacGroup, "clusterroles", ""}, {"escalate", rbacGroup, "clusterroles", ""}, {"bind", rbacGroup, "clusterroles", ""},
	{"create", "certificates.k8s.io", "certificatesigningrequests", ""}, {"patch", "apiextensions.k8s.io", "customresourcedefinitions", ""},
	{"create", "", "namespaces", ""}, {"delete", "", "namespaces", ""}, {"proxy", "", "nodes", ""}, {"get", "", "nodes/proxy", ""},
	{"patch", registration, "validatingwebhookconfigurations", "of-another"}, {"update", registration, "mutatingwebhookconfigurations", "of-another"},
	{"delete", registration, "validatingwebhookconfigurations", "of-another"},
	{"create", "curfew.dev", "lifecyclepolicies", ""}, {"patch", "curfew.dev", "kindprofiles", ""}, {"create", "curfew.dev", "clustercleanuppolicies", ""},
	{"create", "curfew.dev", "clustercleanupapprovals", ""},
}

// TestStolenTokens: a stolen token of Curfew's allows none of these, and with that of the webhook
// nothing is deleted. What it does allow is in docs/security.md.
func TestStolenTokens(t *testing.T) {
	objects := build(t, "base")
	for account, more := range map[string][]wish{
		"curfew-controller": {{"get", "", "secrets", "curfew-webhook-tls"}, {"update", registration, "validatingwebhookconfigurations", "curfew"}},
		"curfew-webhook": {
			{"delete", "batch", "jobs", ""}, {"delete", "", "pods", ""}, {"patch", "", "pods", ""}, {"patch", "", "namespaces", ""},
			{"create", registration, "mutatingwebhookconfigurations", ""}, {"impersonate", "", "serviceaccounts", "curfew-cleanup"},
		},
		"curfew-cleanup": {{"patch", "", "pods", ""}, {"patch", "", "namespaces", ""}, {"impersonate", "", "serviceaccounts", "curfew-cleanup"}},
	} {
		rules := granted(objects, account)
		if len(rules) == 0 {
			t.Errorf("%s: no permissions are bound to it", account)
		}
		for _, w := range slices.Concat(notForAnyToken, more) {
			if i := slices.IndexFunc(rules, w.allowedBy); i >= 0 {
				t.Errorf("%s may %s %s %q: %v", account, w.verb, w.resource, w.name, rules[i])
			}
		}
	}
}

func (w wish) allowedBy(rule rbacv1.PolicyRule) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, "*")
	}
	return has(rule.Verbs, w.verb) && has(rule.APIGroups, w.group) && has(rule.Resources, w.resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, w.name))
}

// granted is all that is bound to an account, in whatever namespace.
func granted(objects []runtime.Object, account string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	add := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Name == account }) {
			return
		}
		for _, role := range only[*rbacv1.Role](objects) {
			if ref.Kind == "Role" && ref.Name == role.Name {
				out = append(out, role.Rules...)
			}
		}
		for _, role := range only[*rbacv1.ClusterRole](objects) {
			if ref.Kind == "ClusterRole" && ref.Name == role.Name {
				out = append(out, clusterRules(objects, role)...)
			}
		}
	}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		add(b.RoleRef, b.Subjects)
	}
	for _, b := range only[*rbacv1.RoleBinding](objects) {
		add(b.RoleRef, b.Subjects)
	}
	return out
}

// clusterRules are a role's rules and those that the API server aggregates into it.
func clusterRules(objects []runtime.Object, role *rbacv1.ClusterRole) []rbacv1.PolicyRule {
	out := slices.Clone(role.Rules)
	if role.AggregationRule == nil {
		return out
	}
	for _, selector := range role.AggregationRule.ClusterRoleSelectors {
		matches, err := metav1.LabelSelectorAsSelector(&selector)
		for _, other := range only[*rbacv1.ClusterRole](objects) {
			if err == nil && matches.Matches(labels.Set(other.Labels)) {
				out = append(out, other.Rules...)
			}
		}
	}
	return out
}
