package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// lookup.referenced reads every kind that the API server serves. An object that a suspended CronJob,
// an argument or a binding in another namespace uses is kept, and so is everything while the account
// may not list a kind. No other test runs beside this one, as for TestCleanupSamples.
func TestUnusedIsFound(t *testing.T) {
	s, other := newSpace(t), newSpace(t)
	name := func(n string) string { return s.name + "-" + n }
	var objects []string
	for _, text := range []string{"unused", "mounted", "argument"} {
		objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}`, name(text)))
	}
	s.apply(strings.Join(append(objects,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: `+name("dashboard")+`, labels: {grafana_dashboard: "1"}}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: `+name("spare")+`}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: `+name("tls")+`}}`,
		`{apiVersion: v1, kind: Secret, type: istio.io/ca-root, metadata: {name: `+name("ca")+`}}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: `+name("idle")+`}}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: `+name("bound")+`}}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: finder}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: curfew-impersonate}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: curfew-impersonate}, subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]}`,
		`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {tls: [{secretName: `+name("tls")+`}], rules: [{host: a.example}]}}`,
		`{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: "0 0 1 1 *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never,
			containers: [{name: c, image: i, args: ["--config=`+name("argument")+`"]}], volumes: [{name: v, configMap: {name: `+name("mounted")+`, optional: true}}]}}}}}}`,
	), "\n---\n"))
	other.apply(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
		subjects: [{kind: ServiceAccount, name: ` + name("bound") + `, namespace: ` + s.name + `}]}`)
	const rights = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s}, rules: [{apiGroups: [""], resources: [configmaps, secrets, serviceaccounts], verbs: [get, list, delete]}%[3]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}, subjects: [{kind: ServiceAccount, name: finder, namespace: %[2]s}]}`
	s.apply(fmt.Sprintf(rights, s.name, s.name, ""))
	t.Cleanup(func() { s.afterwards("delete", "clusterrolebinding,clusterrole", s.name) })
	policy := s.cleanupPolicyAt("@yearly", "unused", "", `dryRun: true, serviceAccountName: finder, serviceAccountNamespace: `+s.name+`,
		matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps, secrets, serviceaccounts]}]},
		exclude: {resourceRules: [{apiGroups: [""], resources: [serviceaccounts], resourceNames: [finder]}]},
		conditions: [{name: unreferenced, expression: '!lookup.referenced'}]`)
	preview := func(d time.Duration) string {
		out := s.expectSuccess(s.curfew("preview", policy, "--at", time.Now().UTC().Add(d).Format(time.RFC3339), "-o",
			`jsonpath={range .items[?(@.result=="WouldDelete")]}{.object.kind} {.object.name}{"\n"}{end}`))
		return strings.ReplaceAll(out.stdout, s.name+"-", "")
	}
	if got := preview(2 * time.Hour); got != "" {
		t.Errorf("an account that may not list what refers to an object deletes\n%s", got)
	}
	s.apply(fmt.Sprintf(rights, s.name, s.name, `, {apiGroups: ["*"], resources: ["*"], verbs: [list]}`))
	if got := preview(0); got != "" {
		t.Errorf("objects that are minutes old:\n%s", got)
	}
	const want = "ConfigMap unused\nSecret spare\nServiceAccount idle\n"
	if got := preview(2 * time.Hour); got != want {
		t.Errorf("the preview shows\n%s\nwant\n%s", got, want)
	}
}
