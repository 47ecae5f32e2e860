package unused

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// The policy of each finder runs, for each of its kinds alone and for all, and in one namespace.
func TestFindersCompile(t *testing.T) {
	compiler := expression.NewCompiler(10)
	for _, name := range append(kindNames(), strings.Join(kindNames(), ",")) {
		chosen, _, err := findersOf(strings.Split(name, ","), true)
		if err != nil {
			t.Fatal(err)
		}
		p, err := compile(compiler, chosen, &scope{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if p.Limited() || p.Remembers() || p.NeedsApproval(false) || !p.Report || p.NeedsWhole(schema.GroupResource{Resource: "secrets"}) {
			t.Errorf("%s: the report has a limit, counts runs, or reads whole Secrets", name)
		}
		for _, each := range chosen {
			if each.reports {
				if text, err := manifests([]finder{each}, &scope{}); err == nil {
					t.Errorf("%s: policy\n%s", name, text)
				}
				continue
			}
			object := &v1alpha1.ClusterCleanupPolicy{}
			text, err := manifests([]finder{each}, &scope{namespaces: []string{"ci", "lab"}})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(text, "\nkind: ClusterRoleBinding\n") != 1 || strings.Count(text, "\nkind: RoleBinding\n") != 3 {
				t.Errorf("%s: the right to delete is not that of two namespaces alone\n%s", name, text)
			}
			if err := yaml.UnmarshalStrict([]byte(text[strings.LastIndex(text, "---\n"):]), object); err != nil {
				t.Fatal(err)
			}
			if _, errs := cleanup.Compile(compiler, object); len(errs) > 0 {
				t.Errorf("%s: %v", name, errs)
			}
			aged := slices.ContainsFunc(object.Spec.Conditions, func(condition v1alpha1.CleanupCondition) bool {
				return strings.HasPrefix(string(condition.Expression), "now - timestamp(object.metadata.creationTimestamp) > ")
			})
			if object.Spec.Approval != v1alpha1.ApprovalRequired || !aged || object.Spec.MinUnused == nil {
				t.Errorf("%s: want an approval, a minimum age and minUnused\n%s", name, text)
			}
			if !object.Spec.DryRun || !slices.Equal(object.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0].Values, []string{"ci", "lab"}) {
				t.Errorf("%s: want a dry run in namespaces ci and lab", name)
			}
		}
	}
	if chosen, _, err := findersOf(nil, true); err != nil || len(chosen) != 7 {
		t.Errorf("%d finders by default (%v), want those that need no name", len(chosen), err)
	}
}
