package e2e

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// With bounds.protect: Deny, only users who may update that policy protect objects. A protected
// object stays protected.
func TestPolicyDeniesProtection(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	name := s.policy("protect", "", `bounds: {protect: Deny}`)
	s.may("ann", "create", "get", "patch", "delete")
	protected := s.manifest(job("protected", annotated(wellknown.AnnotationProtect, "true")))
	for s.ctx.Err() == nil && !s.kubectlInput(protected, "--as=ann", "create", "--dry-run=server", "-f", "-").failed {
	}
	const refusal = "metadata.annotations[curfew.dev/protect]: "
	reason := `is against bounds.protect of policy "` + name + `": leave it out, or ask for the verb update on that LifecyclePolicy`
	s.expectRefusal(s.kubectlInput(protected, "--as=ann", "create", "-f", "-"), denied("validate-marked.curfew.dev", refusal+reason))
	s.expectStderr(s.kubectlInput(s.manifest(job("plain", inTemplate(hold, "true"))), "--as=ann", "create", "-f", "-"))
	s.expectRefusal(s.kubectl("--as=ann", "annotate", "job", "plain", wellknown.AnnotationProtect+"=true"),
		`Error from server (Forbidden): admission webhook "validate-marked.curfew.dev" denied the request: `+refusal+reason)
	s.expectStderr(s.kubectl("annotate", "job", "plain", wellknown.AnnotationProtect+"=true"))
	s.expectStderr(s.kubectl("--as=ann", "annotate", "job", "plain", wellknown.AnnotationTTL+"=1h"))
}

// For kinds of Kubernetes, a write of the status can protect an object. The policy denies that, too.
func TestPolicyDeniesProtectionByStatus(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	name := s.policy("protect", "kinds: [{group: networking.k8s.io, kind: Ingress}]", `bounds: {protect: Deny}`)
	roles := suite.cluster.Client.RbacV1()
	_, err := roles.Roles(s.name).Create(s.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "status"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses/status"}, Verbs: []string{"get", "patch"}},
	}}, metav1.CreateOptions{})
	s.ok(err)
	_, err = roles.RoleBindings(s.name).Create(s.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "status"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "status"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "eve"}}}, metav1.CreateOptions{})
	s.ok(err)
	s.apply(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {rules: [{host: a.example}]}}`)
	const protects = `{"metadata":{"annotations":{"curfew.dev/protect":"true"}}}`
	write := func(flags ...string) output {
		return s.kubectl(append([]string{"--as=eve", "patch", "ingress", "web", "--subresource=status", "--type=merge", "-p", protects}, flags...)...)
	}
	refused := func(out output) bool {
		return strings.Contains(out.stderr, `denied the request: metadata.annotations[curfew.dev/protect]: is against bounds.protect of policy "`+name+`"`)
	}
	s.poll("the webhook for Ingresses", func(context.Context) (bool, error) { return refused(write("--dry-run=server")), nil })
	if out := write(); !refused(out) {
		t.Errorf("protected by the status: %s%s", out.stdout, out.stderr)
	}
	if got := s.jsonpath("ingress", "web", `.metadata.annotations.curfew\.dev/protect`); got != "" {
		t.Errorf("the Ingress is protected: %s", got)
	}
	// A person who may update the policy may protect the object, also by its status.
	s.expectSuccess(s.kubectl("patch", "ingress", "web", "--subresource=status", "--type=merge", "-p", protects))
	if got := s.jsonpath("ingress", "web", `.metadata.annotations.curfew\.dev/protect`); got != "true" {
		t.Errorf("the Ingress is not protected: %q", got)
	}
}
