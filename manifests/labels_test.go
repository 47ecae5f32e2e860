package manifests

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"curfew.dev/curfew/policy/wellknown"
)

// What labels may delete is for the installer to grant: the base has none of it, and what there is
// to take names what it is.
func TestRolesForLabelsAreOptIn(t *testing.T) {
	roles := only[*rbacv1.ClusterRole](build(t, "labels"))
	if len(roles) != 1 {
		t.Fatalf("%d ClusterRoles in labels, want 1", len(roles))
	}
	resources := map[schema.GroupResource]bool{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		resources[plural.GroupResource()] = true
	}
	for _, rule := range roles[0].Rules {
		if !slices.Equal(rule.Verbs, []string{"get", "list", "watch", "delete"}) {
			t.Errorf("verbs %v", rule.Verbs)
		}
		for _, resource := range rule.Resources {
			groupResource := schema.GroupResource{Group: rule.APIGroups[0], Resource: resource}
			if !resources[groupResource] || len(rule.APIGroups) != 1 {
				t.Errorf("%s is no built-in resource", groupResource)
			}
			if resource == "secrets" || groupResource.Group == rbacv1.GroupName || strings.HasPrefix(resource, "*") {
				t.Errorf("%s is not to be granted by the way", groupResource)
			}
		}
	}
	data, err := os.ReadFile("components/delete-anything/role.yaml")
	must(t, err)
	anything := only[*rbacv1.ClusterRole](decode(t, "components/delete-anything/role.yaml", data))
	for _, role := range append(roles, anything...) {
		if role.Labels[wellknown.LabelAggregate] != "true" {
			t.Errorf("%s would not be taken up by curfew-controller-kinds", role.Name)
		}
		for _, based := range only[*rbacv1.ClusterRole](build(t, "base")) {
			if based.Name == role.Name {
				t.Errorf("%s is in the base", role.Name)
			}
		}
	}
}
