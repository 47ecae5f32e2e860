package convert_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

// The policy of kor's lists keeps the exceptions of every file, and objects with kor's label.
func TestKorExceptions(t *testing.T) {
	result := convert.Source("", []byte(`{"exceptionConfigMaps": [
		{"Namespace": "ops", "ResourceName": "base"}, {"Namespace": "^c", "ResourceName": "\\.crt$", "MatchRegex": true}]}
---
{"exceptionConfigMaps": [{"Namespace": "ci", "ResourceName": "a.c"}]}
`), options)
	if len(result.Policies) != 1 {
		t.Fatalf("%d policies, want 1: %v", len(result.Policies), result.Findings)
	}
	one := &result.Policies[0]
	usable(t, one)
	if one.Spec.Suspend || !one.Spec.DryRun {
		t.Errorf("suspended: %t, dry run: %t, want a dry run", one.Spec.Suspend, one.Spec.DryRun)
	}
	selector, err := metav1.LabelSelectorAsSelector(one.Spec.MatchConstraints.ObjectSelector)
	if err != nil || selector.Matches(labels.Set{"kor/used": "true"}) || !selector.Matches(labels.Set{"kor/used": "false"}) {
		t.Errorf("labels %s, %v: want objects without kor/used=true", selector, err)
	}
	var objects string
	for _, name := range []string{"base", "root.crt", "crt", "a.c", "abc"} {
		objects += manifest("v1", "ConfigMap", "ci", "ci-"+name, "") + manifest("v1", "ConfigMap", "ci", name, "")
	}
	objects += manifest("v1", "ConfigMap", "ops", "base", "") + manifest("v1", "ConfigMap", "ops", "ops.crt", "")
	want := []string{"abc", "base", "ci-a.c", "ci-abc", "ci-base", "ci-crt", "crt", "ops.crt"}
	if have := runAll(t, result.Policies, objects); !slices.Equal(have, want) {
		t.Errorf("deletes %q, want %q", have, want)
	}
}

// A list that cannot be read, or has no lookup, becomes no policy that deletes.
func TestKorListsThatAreNotConverted(t *testing.T) {
	objects := manifest("v1", "Secret", "ci", "a", "") + manifest("rbac.authorization.k8s.io/v1", "Role", "ci", "b", "")
	for list, policies := range map[string]int{
		`{"exceptionSecrets": [{"Namespace": "(", "ResourceName": "x", "MatchRegex": true}]}`: 1,
		`{"exceptionSecrets": {"a": 1}}`:                                0,
		`{"exceptionGadgets": []}`:                                      0,
		`{"exceptionRoles": [{"Namespace": "x", "ResourceName": "y"}]}`: 1,
		`{"exceptionSecrets": [` + strings.Repeat(`{"Namespace": "`+strings.Repeat("x", 200)+`", "ResourceName": "y"},`, 200) + `{}]}`: 1,
	} {
		result := convert.Source("", []byte(list), options)
		for i := range result.Policies {
			usable(t, &result.Policies[i])
		}
		lost := slices.ContainsFunc(result.Findings, func(f convert.Finding) bool { return f.Lost })
		if have := runAll(t, result.Policies, objects); len(have) > 0 || len(result.Policies) != policies || !lost {
			t.Errorf("%.60s: %d policies, want %d, delete %q: %.300v", list, len(result.Policies), policies, have, result.Findings)
		}
	}
}
