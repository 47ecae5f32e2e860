package harness

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/fake"
	kubernetes "k8s.io/client-go/kubernetes/fake"

	"curfew.dev/curfew/policy/wellknown"
)

// Which grants count as used: each line of the audit log is there for one of them.
func TestGranted(t *testing.T) {
	t.Parallel()
	meta := func(namespace, name string, labels ...string) metav1.ObjectMeta {
		out := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "curfew"}}
		for _, label := range labels {
			out.Labels[label] = "true"
		}
		return out
	}
	rule := func(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
		out := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
		if name != "" {
			out.ResourceNames = []string{name}
		}
		return out
	}
	accounts := func(name string) []rbacv1.Subject { return []rbacv1.Subject{{Kind: "ServiceAccount", Name: name}} }
	client := kubernetes.NewClientset(
		&rbacv1.ClusterRole{ObjectMeta: meta("", "feature", wellknown.LabelFeature), Rules: []rbacv1.PolicyRule{
			rule("", "pods", "", "get", "list", "watch", "delete", "patch"), rule("", "pods/status", "", "patch"), rule("absent.io", "things", "", "get")}},
		&rbacv1.ClusterRole{ObjectMeta: meta("", "curfew-impersonate"), Rules: []rbacv1.PolicyRule{rule("", "serviceaccounts", "", "impersonate")}},
		&rbacv1.ClusterRole{ObjectMeta: meta("", "unbound"), Rules: []rbacv1.PolicyRule{rule("", "secrets", "", "get")}},
		&rbacv1.ClusterRole{ObjectMeta: meta("", "cleanup"), Rules: []rbacv1.PolicyRule{rule("", "pods", "", "get", "list", "delete")}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "cleanup"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cleanup"}, Subjects: accounts("curfew-cleanup")},
		&rbacv1.Role{ObjectMeta: meta(Namespace, "controller"), Rules: []rbacv1.PolicyRule{
			rule("", "serviceaccounts", "curfew-cleanup", "impersonate"), rule("", "configmaps", "settings", "create", "patch")}},
		&rbacv1.RoleBinding{ObjectMeta: meta(Namespace, "controller"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "controller"}, Subjects: accounts("curfew-controller")},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-a-test", Labels: map[string]string{wellknown.LabelAggregate: "true"}}, Rules: []rbacv1.PolicyRule{rule("", "pods", "", "deletecollection")}},
	)
	client.Discovery().(*fake.FakeDiscovery).Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods"}, {Name: "pods/status"}, {Name: "configmaps"}, {Name: "secrets"}}}}

	cluster := &Cluster{Client: client, Dir: t.TempDir()}
	const log = `{"verb": "get", "user": {"username": "system:serviceaccount:curfew-system:curfew-controller"}, "objectRef": {"resource": "pods", "name": "a"}, "responseStatus": {"code": 404}}
{"verb": "delete", "user": {"username": "system:serviceaccount:curfew-system:curfew-controller"}, "objectRef": {"resource": "pods", "name": "a"}, "responseStatus": {"code": 403}}
{"verb": "patch", "user": {"username": "system:serviceaccount:curfew-system:curfew-controller"}, "objectRef": {"resource": "pods", "subresource": "status", "name": "a"}, "responseStatus": {"code": 200}}
{"verb": "watch", "requestURI": "/api/v1/pods?sendInitialEvents=true", "user": {"username": "system:serviceaccount:curfew-system:curfew-controller"}, "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200}}
{"verb": "patch", "user": {"username": "system:serviceaccount:curfew-system:curfew-controller"}, "objectRef": {"resource": "configmaps", "name": "settings"}, "responseStatus": {"code": 201}}
{"verb": "delete", "user": {"username": "system:serviceaccount:curfew-system:curfew-controller"}, "impersonatedUser": {"username": "system:serviceaccount:curfew-system:curfew-cleanup"}, "objectRef": {"resource": "pods", "name": "a"}, "responseStatus": {"code": 200}}
{"verb": "list", "user": {"username": "admin"}, "impersonatedUser": {"username": "system:serviceaccount:curfew-system:curfew-cleanup"}, "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200}}
{"verb": "get", "user": {"username": "system:serviceaccount:elsewhere:curfew-cleanup"}, "objectRef": {"resource": "pods", "name": "a"}, "responseStatus": {"code": 200}}
`
	want := map[string]bool{
		"curfew-controller get pods":                                   true,
		"curfew-controller list pods":                                  true,
		"curfew-controller watch pods":                                 true,
		"curfew-controller delete pods":                                false, // forbidden; the other one is curfew-cleanup's
		"curfew-controller patch pods":                                 false, // only of the status
		"curfew-controller patch pods/status":                          true,
		"curfew-controller create configmaps settings":                 true,
		"curfew-controller patch configmaps settings":                  true,
		"curfew-controller impersonate serviceaccounts curfew-cleanup": true,
		"curfew-controller impersonate serviceaccounts":                false, // the narrower grant suffices
		"curfew-cleanup delete pods":                                   true,
		"curfew-cleanup list pods":                                     false, // an administrator, as this account
		"curfew-cleanup get pods":                                      false, // an account of another namespace
	}
	check := func() {
		t.Helper()
		got, err := cluster.Granted(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Errorf("got\n%v\nwant\n%v", got, want)
		}
	}
	file := filepath.Join(cluster.Dir, "logs", "audit.log")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(log)
	check()
	write(log + `{"verb": "list", "user": {"username": "system:serviceaccount:curfew-system:curfew-controller"}, "impersonatedUser": {"username": "system:serviceaccount:ci:janitor"}, "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200}}
`)
	want["curfew-controller impersonate serviceaccounts"] = true
	check()
}
