package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// Writing a status, or binding a Pod, can change metadata. With --require-delete a user who may do
// nothing else gets no object deleted by it, and a write of nothing but the status reaches no
// webhook.
func TestMetadataThroughSubresources(t *testing.T) {
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultPodTTL, "1d")
	port := suite.webhook.WebhookPort
	s.ok(suite.webhook.Stop(s.ctx))
	s.ok(startWebhook(s.ctx, port, "--require-delete"))
	defer func() {
		s.ok(suite.webhook.Stop(s.ctx))
		s.ok(startWebhook(s.ctx, port))
	}()
	_, err := suite.cluster.Client.RbacV1().Roles(s.name).Create(s.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "status"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "batch"}, Resources: []string{"jobs/status", "pods/status", "services/status"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/binding", "bindings"}, Verbs: []string{"create"}},
	}}, metav1.CreateOptions{})
	s.ok(err)
	_, err = suite.cluster.Client.RbacV1().RoleBindings(s.name).Create(s.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "status"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "status"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "eve"}}}, metav1.CreateOptions{})
	s.ok(err)
	s.expectSuccess(s.create(job("build", inTemplate(hold, "true"))))
	waiting := pod("waiting", corev1.RestartPolicyNever)
	waiting.Spec.SchedulerName = "absent"
	s.expectSuccess(s.create(waiting, s.object(`{apiVersion: v1, kind: Service, metadata: {name: front}, spec: {ports: [{port: 80}]}}`)))

	write := func(kind, name, patch string) output {
		return s.kubectl("--as=eve", "patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)
	}
	refused := func(webhook, field, kind string) string {
		return `Error from server (Forbidden): admission webhook "` + webhook + `" denied the request: ` + field + ": sets when this " + kind + " is deleted" + s.notYours(kind)
	}
	const annotation, label = "metadata.annotations[curfew.dev/ttl-after-finished]", "metadata.labels[curfew.dev/ttl]"
	const annotated, labelled = `{"metadata":{"annotations":{"curfew.dev/ttl-after-failed":"1h"}}}`, `{"metadata":{"labels":{"curfew.dev/ttl":"1d"}}}`
	s.expectRefusal(write("job", "build", labelled), refused("validate.curfew.dev", label, "Job"))
	s.expectRefusal(write("pod", "waiting", strings.Replace(annotated, "failed", "finished", 1)), refused("validate-pods.curfew.dev", annotation, "Pod"))
	s.expectRefusal(write("pod", "waiting", labelled), refused("validate-pods.curfew.dev", label, "Pod"))
	// Whether the controller may delete Services depends on what other tests grant it, and is warned
	// about beside.
	if out := write("service", "front", labelled); !out.failed || !strings.Contains(out.stderr, refused("validate-labels-in-use.curfew.dev", label, "Service")) {
		t.Errorf("a label by the status of a Service: %s%s", out.stdout, out.stderr)
	}

	binding := func(metadata string) string {
		return `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"waiting",` + metadata + `},"target":{"kind":"Node","name":"none"}}`
	}
	const ttl = `"annotations":{"curfew.dev/ttl-after-finished":"1h"}`
	bad := binding(`"uid":"` + s.jsonpath("pod", "waiting", ".metadata.uid") + `",` + ttl)
	send := func(binding, path string) output {
		return s.kubectlInput(binding, "--as=eve", "create", "--raw", "/api/v1/namespaces/"+s.name+path, "-f", "-")
	}
	s.expectRefusal(send(bad, "/pods/waiting/binding"), refused("bindings.curfew.dev", annotation, "Pod"))
	// The API server drops the UID of a Binding that is no subresource.
	for _, each := range []output{send(binding(ttl), "/pods/waiting/binding"), send(binding(ttl), "/bindings"), send(bad, "/bindings")} {
		if !strings.Contains(each.stderr, `"bindings.curfew.dev" denied the request: metadata.uid: is absent`) {
			t.Errorf("a Binding without a UID: %s", each.stderr)
		}
	}

	// The namespace's own keys are kept, whatever a write of its status says.
	since := s.jsonpath("namespace", s.name, `.metadata.annotations.curfew\.dev/default-since`)
	s.expectSuccess(s.kubectl("patch", "namespace", s.name, "--subresource=status", "--type=merge", "-p",
		`{"metadata":{"annotations":{"curfew.dev/default-since":"2020-01-01T00:00:00Z/0"},"labels":{"curfew.dev/in-use":null}}}`))
	if got := s.jsonpath("namespace", s.name, `.metadata.annotations.curfew\.dev/default-since`); got != since || since == "" {
		t.Errorf("default-since became %q, want %q", got, since)
	}
	if got := s.jsonpath("namespace", s.name, `.metadata.labels.curfew\.dev/in-use`); got != "true" {
		t.Errorf("label in-use became %q", got)
	}

	before := s.reviews("Pod")
	s.expectSuccess(write("pod", "waiting", `{"metadata":{"annotations":{"a":"b"}},"status":{"message":"still waiting"}}`))
	if after := s.reviews("Pod"); after != before {
		t.Errorf("%v reviews of a status that concerns no rule, want none", after-before)
	}
}
