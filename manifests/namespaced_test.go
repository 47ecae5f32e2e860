package manifests

import (
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/webhook/lint"
)

// The namespaced overlay needs no right in the cluster, and Curfew can read the files of its
// ConfigMap.
func TestNamespacedOverlay(t *testing.T) {
	objects := build(t, "overlays/namespaced")
	if roles := only[*rbacv1.ClusterRole](objects); len(roles) > 0 {
		t.Errorf("ClusterRole %s", roles[0].Name)
	}
	if bindings := only[*rbacv1.ClusterRoleBinding](objects); len(bindings) > 0 {
		t.Errorf("ClusterRoleBinding %s", bindings[0].Name)
	}
	if roles := only[*rbacv1.Role](objects); len(roles) != 2 {
		t.Errorf("%d Roles, want one of its own and one of the team's", len(roles))
	}
	text, err := os.ReadFile("overlays/namespaced/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/policy.yaml", text, 0o600); err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := lint.NewSchemas(definitions)
	if err != nil {
		t.Fatal(err)
	}
	read, _, err := follow.Files{Dir: dir, Stored: schemas.Stored}.Read(t.Context())
	if err != nil || len(read) != 1 {
		t.Errorf("read %d objects: %v", len(read), err)
	}
}
