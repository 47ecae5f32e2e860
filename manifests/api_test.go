package manifests

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// TestHTTPAPIComponent: the Service leads to the port that --api-addr opens, and the webhook's
// account may have the API server authenticate a user.
func TestHTTPAPIComponent(t *testing.T) {
	objects := component(t, "http-api")
	if got := given(objects, "--api-addr=:8443"); !slices.Equal(got, []string{"curfew-webhook"}) {
		t.Errorf("--api-addr is given to %q, want the webhook alone", got)
	}
	for _, d := range only[*appsv1.Deployment](objects) {
		if ports := d.Spec.Template.Spec.Containers[0].Ports; d.Name == "curfew-webhook" && !slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool {
			return p.Name == "api" && p.ContainerPort == 8443
		}) {
			t.Errorf("%s: no port named api with number 8443: %v", d.Name, ports)
		}
	}
	for _, s := range only[*corev1.Service](objects) {
		if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 8443 && p.TargetPort.StrVal == "api" }) {
			t.Errorf("Service %s does not lead to the HTTP API: %v", s.Name, s.Spec.Ports)
		}
	}
	if may := mayCreate(objects, "authentication.k8s.io", "tokenreviews"); !slices.Equal(may, []string{"curfew-webhook-http-api"}) {
		t.Errorf("ClusterRoles %q may create tokenreviews", may)
	}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		if b.RoleRef.Name == "curfew-webhook-http-api" && (len(b.Subjects) != 1 || b.Subjects[0].Name != "curfew-webhook" || b.Subjects[0].Namespace != "curfew-system") {
			t.Errorf("%s is bound to %v", b.RoleRef.Name, b.Subjects)
		}
	}
	if base := build(t, "base"); len(objects) != len(base)+2 {
		t.Errorf("%d objects, want a role and its binding more than %d", len(objects), len(base))
	}
}

// TestSecureMetricsComponent: both processes get the flag and may have the API server authenticate and
// authorize scrapers, and no user may read the metrics by it.
func TestSecureMetricsComponent(t *testing.T) {
	objects := component(t, "secure-metrics")
	if got := given(objects, "--metrics-secure"); !slices.Equal(got, []string{"curfew-controller", "curfew-webhook"}) {
		t.Errorf("--metrics-secure is given to %q, want both", got)
	}
	if may := mayCreate(objects, "authentication.k8s.io", "tokenreviews"); !slices.Equal(may, []string{"curfew-metrics-auth"}) {
		t.Errorf("ClusterRoles %q may create tokenreviews", may)
	}
	if may := mayCreate(objects, "authorization.k8s.io", "subjectaccessreviews"); !slices.Equal(may, []string{"curfew-webhook", "curfew-metrics-auth"}) {
		t.Errorf("ClusterRoles %q may create subjectaccessreviews", may)
	}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		if b.RoleRef.Name == "curfew-metrics-reader" || b.RoleRef.Name == "curfew-metrics-auth" && (len(b.Subjects) != 2 ||
			b.Subjects[0].Name != "curfew-controller" || b.Subjects[1].Name != "curfew-webhook") {
			t.Errorf("%s is bound to %v", b.RoleRef.Name, b.Subjects)
		}
	}
	reader := slices.IndexFunc(only[*rbacv1.ClusterRole](objects), func(role *rbacv1.ClusterRole) bool { return role.Name == "curfew-metrics-reader" })
	want := []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
	if reader < 0 || !equality.Semantic.DeepEqual(only[*rbacv1.ClusterRole](objects)[reader].Rules, want) {
		t.Errorf("there is no ClusterRole curfew-metrics-reader with %v", want)
	}
	if base := build(t, "base"); len(objects) != len(base)+3 {
		t.Errorf("%d objects, want two roles and a binding more than %d", len(objects), len(base))
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
