package manifests

import (
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/lint"
)

// The namespaced overlay needs no right in the cluster, and Curfew can read the files of its
// ConfigMap.
func TestNamespacedOverlay(t *testing.T) {
	for dir, roles := range map[string]int{"overlays/namespaced": 2, "overlays/namespaced-webhook": 3} {
		objects := build(t, dir)
		if roles := only[*rbacv1.ClusterRole](objects); len(roles) > 0 {
			t.Errorf("%s: ClusterRole %s", dir, roles[0].Name)
		}
		if bindings := only[*rbacv1.ClusterRoleBinding](objects); len(bindings) > 0 {
			t.Errorf("%s: ClusterRoleBinding %s", dir, bindings[0].Name)
		}
		if got := len(only[*rbacv1.Role](objects)); got != roles {
			t.Errorf("%s: %d Roles, want %d: the controller's own, and one of each process in the team's namespace", dir, got, roles)
		}
		if len(only[*admissionv1.MutatingWebhookConfiguration](objects))+len(only[*admissionv1.ValidatingWebhookConfiguration](objects)) > 0 {
			t.Errorf("%s: a webhook configuration takes an administrator", dir)
		}
		config := only[*corev1.ConfigMap](objects)[0].Name
		for _, deployment := range only[*appsv1.Deployment](objects) {
			container := deployment.Spec.Template.Spec.Containers[0]
			if !slices.Contains(container.Args, "--only-namespaces=team-a") || deployment.Spec.Template.Spec.Volumes[0].ConfigMap.Name != config {
				t.Errorf("%s: %s runs %q with the files of %+v", dir, deployment.Name, container.Args, deployment.Spec.Template.Spec.Volumes[0])
			}
		}
	}
	text, err := os.ReadFile("overlays/namespaced/policy.yaml")
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/policy.yaml", text, 0o600))
	definitions, err := crd.All()
	must(t, err)
	schemas, err := lint.NewSchemas(definitions)
	must(t, err)
	read, _, err := follow.Files{Dir: dir, Stored: schemas.Stored}.Read(t.Context())
	if err != nil || len(read) != 1 {
		t.Errorf("read %d objects: %v", len(read), err)
	}
}

// What an administrator installs for a team sends nothing of other namespaces, nothing
// cluster-scoped but the team's Namespaces, and everything else that the base sends for the team's.
func TestNamespacedWebhooks(t *testing.T) {
	base := webhooks(t, build(t, "base"))
	base = slices.DeleteFunc(base, func(w webhook) bool {
		// New objects of the team are sent whatever they carry. Policies are files.
		return strings.Contains(w.name, "-marked") || w.name == "policies.curfew.dev"
	})
	team := webhooks(t, build(t, "overlays/namespaced-webhook/admin"))
	if len(team) != len(base) {
		t.Fatalf("%d webhooks, want %d", len(team), len(base))
	}
	for i, w := range team {
		selector := w.namespaces.MatchExpressions
		if w.name != base[i].name || len(selector) != 1 || selector[0].Key != corev1.LabelMetadataName || selector[0].Operator != "In" || !slices.Equal(selector[0].Values, []string{"team-a"}) {
			t.Errorf("%s selects %+v", w.name, selector)
		}
	}
}
