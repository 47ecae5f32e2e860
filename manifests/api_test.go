package manifests

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestHTTPAPIIsOffByDefault: nothing in the base serves the HTTP API, leads to it or may ask whose
// a token is.
func TestHTTPAPIIsOffByDefault(t *testing.T) {
	objects := build(t, "base")
	for _, d := range only[*appsv1.Deployment](objects) {
		container := d.Spec.Template.Spec.Containers[0]
		if slices.ContainsFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--api-addr") }) ||
			slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "api" }) {
			t.Errorf("%s: serves the HTTP API: %q, ports %v", d.Name, container.Args, container.Ports)
		}
	}
	for _, s := range only[*corev1.Service](objects) {
		if len(s.Spec.Ports) != 1 {
			t.Errorf("Service %s has ports %v, want the webhook's alone", s.Name, s.Spec.Ports)
		}
	}
	if may := mayCreate(objects, "authentication.k8s.io", "tokenreviews"); len(may) > 0 {
		t.Errorf("ClusterRoles %q may create tokenreviews", may)
	}
	if may := mayCreate(objects, "authorization.k8s.io", "subjectaccessreviews"); !slices.Equal(may, []string{"curfew-webhook"}) {
		t.Errorf("ClusterRoles %q may create subjectaccessreviews", may)
	}
}

// mayCreate are the ClusterRoles that may create objects of a resource.
func mayCreate(objects []runtime.Object, group, resource string) (names []string) {
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		if slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, "create")
		}) {
			names = append(names, role.Name)
		}
	}
	return names
}
