package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Every policy that kubectl curfew convert writes is accepted by the API server and by Curfew's
// admission, those with conditions that were not converted included. Nothing is stored.
func TestConvertedPoliciesAreAccepted(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	files, err := filepath.Glob("../../cmd/kubectl-curfew/convert/testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v: %v", files, err)
	}
	kinds := map[string]int{}
	for _, file := range files {
		// Exit status 1 says that most of the file could not be converted.
		converted, output, err := suite.cluster.Kubectl(s.ctx, "curfew", "convert", "-f", file)
		if converted == "" {
			t.Fatalf("%s: %v: %s", file, err, output)
		}
		for _, document := range strings.Split(converted, "\n---\n") {
			policy := &unstructured.Unstructured{}
			s.ok(yaml.Unmarshal([]byte(document), &policy.Object))
			if policy.GetNamespace() != "" {
				policy.SetNamespace(s.name)
			}
			policy.SetName(s.name + "-" + policy.GetName())
			suspended, _, _ := unstructured.NestedBool(policy.Object, "spec", "suspend")
			if out := s.kubectlInput(s.manifest(policy.Object), "create", "--dry-run=server", "-f", "-"); out.failed {
				t.Errorf("%s: %s is refused: %s", file, policy.GetName(), out.stderr)
			}
			if suspended {
				kinds["suspended"]++
			}
			kinds[policy.GetKind()]++
		}
	}
	for _, kind := range []string{"CleanupPolicy", "ClusterCleanupPolicy", "suspended"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among them: %v", kind, kinds)
		}
	}
	// Admission is there, and would refuse one of them with a condition that cannot be read.
	bad := `{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: ` + s.name + `}, spec: {schedule: "@daily",
		matchConstraints: {resourceRules: [{apiGroups: [""], resources: [pods]}]}, conditions: [{name: a, expression: object.metadata.}]}}`
	if out := s.kubectlInput(bad, "create", "--dry-run=server", "-f", "-"); !out.failed || !slices.ContainsFunc(strings.Split(out.stderr, "\n"), func(line string) bool {
		return strings.Contains(line, "denied the request")
	}) {
		t.Errorf("a policy that cannot be read: %s", out.stderr)
	}
}
