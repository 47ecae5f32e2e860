package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// What a preview shows is what the run then deletes and skips, and it shows nothing that the
// policy's account, or a user who may not impersonate it, may not list (S10).
func TestPreviewIsRight(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.apply(strings.Join([]string{
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a1, labels: {app: a}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a2, labels: {app: a}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: b1, labels: {app: b}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: protected, labels: {app: a}, annotations: {curfew.dev/protect: "true"}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: unlabelled}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: secret-of-others, labels: {app: a}}}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: janitor}}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: tenant}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: janitor}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, delete]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: janitor}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: janitor}, subjects: [{kind: ServiceAccount, name: janitor}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: tenant}, rules: [{apiGroups: [""], resources: [namespaces, services], verbs: [get, list]}, {apiGroups: [curfew.dev], resources: [cleanuppolicies], verbs: [get]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: tenant}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}, subjects: [{kind: ServiceAccount, name: tenant}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: curfew-impersonate}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: curfew-impersonate}, subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]}`,
	}, "\n---\n"))
	name := s.cleanupPolicyAt(lastMinute(), "all", "janitor", `matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps, secrets, services]}]},
		exclude: {resourceRules: [{apiGroups: [""], resources: [configmaps], resourceNames: [kube-root-ca.crt]}]},
		conditions: [{name: a, expression: 'object.metadata.labels.app == "a"'}]`)
	const each = `jsonpath={range .items[?(@.result=="%s")]}{.object.kind} {.object.name}{"\n"}{end}{range .skipped[*]}{.reason} {.count}{"\n"}{end}`
	shown := s.expectSuccess(s.curfew("preview", name, "-o", fmt.Sprintf(each, "WouldDelete")))
	if want := "ConfigMap a1\nConfigMap a2\nEvaluationFailed 1\nProtected 1\n"; shown.stdout != want {
		t.Errorf("the preview shows\n%s\nwant\n%s", shown.stdout, want)
	}
	whole := s.expectSuccess(s.curfew("preview", name, "-o", "wide"))
	if strings.Contains(whole.stdout, "secret-of-others") || !strings.Contains(whole.stderr, `may not list secrets in namespace "`+s.name+`"`) {
		t.Errorf("the account may not list Secrets:\n%s%s", whole.stdout, whole.stderr)
	}
	// A tenant who may neither impersonate the account nor list ConfigMaps.
	tenant := s.curfew("preview", name, "-o", "wide", "--as", "system:serviceaccount:"+s.name+":tenant")
	for _, hidden := range []string{"secret-of-others", "a1", "protected"} {
		if strings.Contains(tenant.stdout+tenant.stderr, hidden) {
			t.Errorf("a tenant sees %s:\n%s%s", hidden, tenant.stdout, tenant.stderr)
		}
	}
	if !tenant.failed || !strings.Contains(tenant.stderr, "you may not list configmaps") {
		t.Errorf("a tenant is told\n%s", tenant.stderr)
	}
	s.makeDue(name)
	s.awaitCleanup(name)
	report := s.expectSuccess(s.curfew("report", name, "-o", fmt.Sprintf(each, "Deleted")))
	if report.stdout != shown.stdout {
		t.Errorf("the run deleted and skipped\n%s\nand the preview showed\n%s", report.stdout, shown.stdout)
	}
}
