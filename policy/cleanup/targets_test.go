package cleanup_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

var served = []cleanup.Resource{
	{GroupResource: schema.GroupResource{Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true, Versions: []string{"v1"}},
	{GroupResource: schema.GroupResource{Resource: "namespaces"}, Kind: "Namespace", Versions: []string{"v1"}},
	{GroupResource: schema.GroupResource{Resource: "persistentvolumes"}, Kind: "PersistentVolume", Versions: []string{"v1"}},
	{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Kind: "Deployment", Namespaced: true, Versions: []string{"v1", "v1beta2"}},
	{GroupResource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Kind: "Lease", Namespaced: true, Versions: []string{"v1"}},
	{GroupResource: schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}, Kind: "Role", Namespaced: true, Versions: []string{"v1"}},
	{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, Kind: "Widget", Versions: []string{"v2", "v1"}},
	{GroupResource: schema.GroupResource{Group: "example.com", Resource: "gauges"}, Kind: "Gauge", Namespaced: true, Versions: []string{"v1"}, Undeletable: true},
	{GroupResource: schema.GroupResource{Group: "curfew.dev", Resource: "lifecyclepolicies"}, Kind: "LifecyclePolicy", Versions: []string{"v1alpha1"}},
	{GroupResource: schema.GroupResource{Group: "curfew.dev", Resource: "cleanupreports"}, Kind: "CleanupReport", Namespaced: true, Versions: []string{"v1alpha1"}},
}

func targets(p *cleanup.Policy) string {
	var out []string
	for _, t := range p.Targets(served) {
		text := t.Resource + "/" + t.Version
		if t.Name != "" {
			text += "=" + t.Name
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestTargets(t *testing.T) {
	for rules, want := range map[string]string{
		`{apiGroups: ["*"], resources: ["*"]}`:                                                                                           "configmaps/v1 deployments/v1 widgets/v2",
		`{apiGroups: [""], resources: ["*"]}`:                                                                                            "configmaps/v1",
		`{apiGroups: [""], resources: [namespaces, persistentvolumes]}`:                                                                  "namespaces/v1 persistentvolumes/v1",
		`{apiGroups: ["*"], resources: [namespaces, configmaps]}`:                                                                        "configmaps/v1",
		`{apiGroups: ["", "*"], resources: ["*", namespaces]}`:                                                                           "configmaps/v1 namespaces/v1 deployments/v1 widgets/v2",
		`{apiGroups: [curfew.dev], resources: [lifecyclepolicies, cleanupreports]}`:                                                      "",
		`{apiGroups: [rbac.authorization.k8s.io], resources: ["*"]}`:                                                                     "",
		`{apiGroups: [example.com], apiVersions: [v1], resources: [widgets]}`:                                                            "widgets/v1",
		`{apiGroups: [example.com], apiVersions: [v3], resources: [widgets]}`:                                                            "",
		`{apiGroups: [example.com], apiVersions: ["*"], resources: [widgets]}`:                                                           "widgets/v2",
		`{apiGroups: [apps], resources: [deployments/status]}`:                                                                           "",
		`{apiGroups: [""], resources: [configmaps], resourceNames: [a]}`:                                                                 "configmaps/v1=a",
		`{apiGroups: [""], resources: [configmaps], resourceNames: [a, b]}`:                                                              "configmaps/v1",
		`{apiGroups: [""], resources: [configmaps], resourceNames: ["a*"]}`:                                                              "configmaps/v1",
		`{apiGroups: [""], resources: [configmaps], resourceNames: [a]}, {apiGroups: [""], resources: [configmaps]}`:                     "configmaps/v1",
		`{apiGroups: [""], resources: [configmaps], resourceNames: [a]}, {apiGroups: [""], resources: [configmaps], resourceNames: [a]}`: "configmaps/v1=a",
		`{apiGroups: [""], resources: [configmaps], resourceNames: [a]}, {apiGroups: [""], resources: [configmaps], resourceNames: [b]}`: "configmaps/v1",
	} {
		if got := targets(compile(t, "{matchConstraints: {resourceRules: ["+rules+"]}}")); got != want {
			t.Errorf("%s:\n got %s\nwant %s", rules, got, want)
		}
	}
	namespaced := &v1alpha1.CleanupPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "p"}}
	namespaced.Spec.ServiceAccountName, namespaced.Spec.Schedule = "janitor", "@daily"
	namespaced.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{"*", ""}, Resources: []string{"*", "namespaces"}}}
	p, errs := cleanup.CompileNamespaced(expression.NewCompiler(1), namespaced)
	if got := targets(p); errs.ToAggregate() != nil || got != "configmaps/v1 deployments/v1" {
		t.Errorf("a CleanupPolicy lists %s (%v)", got, errs)
	}
}

func TestNamespaces(t *testing.T) {
	known := []*resolution.NamespacePolicy{
		resolution.ParseNamespace("b", nil, map[string]string{"team": "x"}), resolution.ParseNamespace("a", nil, map[string]string{"team": "x"}), resolution.ParseNamespace("c", nil, nil),
	}
	for spec, want := range map[string]string{
		"{}": "[] true",
		"{matchConstraints: {namespaceSelector: {}}}":                                                        "[] true",
		"{matchConstraints: {namespaceSelector: {matchLabels: {team: x}}}}":                                  "[a b] false",
		"{matchConstraints: {namespaceSelector: {matchLabels: {team: z}}}}":                                  "[] false",
		"{exclude: {namespaceSelector: {matchLabels: {team: x}}}}":                                           "[] true",
		"{matchConstraints: {namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}}": "[c] false",
	} {
		names, all := compile(t, spec).Namespaces(known)
		if got := fmt.Sprint(names, all); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
}

// A pattern matches as in a shell; names have no slash and no bracket.
func FuzzNames(f *testing.F) {
	for _, pair := range [][2]string{{"a", "a"}, {"a*", "abc"}, {"*-?", "x-y"}, {"*a*b*", "xxaybz"}, {"**", ""}, {"?", ""}, {"a*a", "a"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		for _, text := range []string{pattern, name} {
			if len(text) > 253 || strings.ContainsAny(text, `/[]\`) || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.*?") != "" {
				return
			}
		}
		if strings.ContainsAny(name, "*?") {
			return
		}
		want, err := path.Match(pattern, name)
		if err != nil || pattern == "" || name == "" {
			return
		}
		p := compile(t, fmt.Sprintf("{matchConstraints: {resourceRules: [{apiGroups: [''], resources: [configmaps], resourceNames: [%q]}]}}", pattern))
		o := object(t, "{}")
		o.Facts.Name = name
		if got := said(p.Judge(t.Context(), o)) == "delete"; got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, name, got, want)
		}
	})
}
