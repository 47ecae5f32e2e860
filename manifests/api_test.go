package manifests

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestHTTPAPIIsReachedAndMayAsk: the Service leads to the port that --api-addr opens, and the webhook's account may ask the API
// server who somebody is and what they may do.
func TestHTTPAPIIsReachedAndMayAsk(t *testing.T) {
	objects := build(t, "base")
	for _, d := range only[*appsv1.Deployment](objects) {
		container := d.Spec.Template.Spec.Containers[0]
		at := slices.IndexFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--api-addr=") })
		if d.Name != "curfew-webhook" {
			if at >= 0 {
				t.Errorf("%s: the process that deletes serves the HTTP API", d.Name)
			}
			continue
		}
		if at < 0 {
			t.Fatalf("%s: no --api-addr in %q", d.Name, container.Args)
		}
		open := strings.TrimPrefix(container.Args[at], "--api-addr=:")
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == "api" && strconv.Itoa(int(p.ContainerPort)) == open
		}) {
			t.Errorf("%s: no port named api with number %s: %v", d.Name, open, container.Ports)
		}
	}
	for _, s := range only[*corev1.Service](objects) {
		if s.Name == "curfew-webhook" && !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.StrVal == "api" }) {
			t.Errorf("Service %s does not lead to the HTTP API: %v", s.Name, s.Spec.Ports)
		}
	}
	for _, r := range only[*rbacv1.ClusterRole](objects) {
		for resource, group := range map[string]string{"tokenreviews": "authentication.k8s.io", "subjectaccessreviews": "authorization.k8s.io"} {
			may := slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Equal(rule.APIGroups, []string{group}) && slices.Equal(rule.Resources, []string{resource}) && slices.Equal(rule.Verbs, []string{"create"})
			})
			if may != (r.Name == "curfew-webhook") {
				t.Errorf("ClusterRole %s: create %s is %v", r.Name, resource, may)
			}
		}
	}
}
