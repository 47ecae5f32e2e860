package unused

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// The policy of each finder runs, for each of its kinds alone and for all, and in one namespace.
func TestFindersCompile(t *testing.T) {
	compiler := expression.NewCompiler(10)
	for _, name := range append(kindNames(), strings.Join(kindNames(), ",")) {
		chosen, err := findersOf(strings.Split(name, ","))
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range chosen {
			p, err := of.compile(compiler)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if p.Limited() || p.Remembers() || p.NeedsApproval(false) {
				t.Errorf("%s: the report has a limit, or counts runs", name)
			}
			object := &v1alpha1.ClusterCleanupPolicy{}
			if err := yaml.UnmarshalStrict([]byte(of.manifest("ci")), object); err != nil {
				t.Fatal(err)
			}
			if _, errs := cleanup.Compile(compiler, object); len(errs) > 0 {
				t.Errorf("%s: %v", name, errs)
			}
			if !object.Spec.DryRun || object.Spec.MatchConstraints.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "ci" {
				t.Errorf("%s: want a dry run in namespace ci", name)
			}
		}
	}
	if chosen, err := findersOf(nil); err != nil || len(chosen) != 4 {
		t.Errorf("%d finders by default (%v), want those that need no name", len(chosen), err)
	}
}
