package references

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A role is used if a binding names it, or if another ClusterRole aggregates it. Its name may have
// characters by which it is not found elsewhere: then it is unknown whether something else names it.
func TestRoles(t *testing.T) {
	bound := func(kind, role, name string) string {
		return "{apiVersion: rbac.authorization.k8s.io/v1, kind: " + kind + ", metadata: {namespace: ci, name: b}, roleRef: {kind: " + role + ", name: '" + name + "'}}"
	}
	aggregates := func(selector string) string {
		return "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}, aggregationRule: {clusterRoleSelectors: [" + selector + "]}}"
	}
	for name, c := range map[string]struct{ scanned, want string }{
		"nothing":                   {"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: ci, name: c}}", "ci/admin false, dev/admin false, /admin false, /Team:admin unknown"},
		"a binding":                 {bound("RoleBinding", "Role", "admin"), "ci/admin true, dev/admin false, /admin false, /Team:admin unknown"},
		"a binding to a wide role":  {bound("RoleBinding", "ClusterRole", "admin"), "ci/admin false, dev/admin false, /admin true, /Team:admin unknown"},
		"a name with a colon":       {bound("RoleBinding", "ClusterRole", "Team:admin"), "ci/admin false, dev/admin false, /admin true, /Team:admin true"},
		"of another case":           {bound("RoleBinding", "ClusterRole", "team:admin"), "ci/admin false, dev/admin false, /admin true, /Team:admin unknown"},
		"aggregated":                {aggregates("{matchLabels: {team: a}}"), "ci/admin false, dev/admin false, /admin true, /Team:admin unknown"},
		"aggregated by expressions": {aggregates("{matchExpressions: [{key: team, operator: Exists}]}"), "ci/admin false, dev/admin false, /admin true, /Team:admin unknown"},
		"a selector of others":      {aggregates("{matchLabels: {team: b}}"), "ci/admin false, dev/admin false, /admin false, /Team:admin unknown"},
		"an invalid selector":       {aggregates("{matchExpressions: [{key: team, operator: Any}]}"), "ci/admin false, dev/admin false, /admin true, /Team:admin true"},
		"a custom kind":             {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {role: admin}}", "ci/admin true, dev/admin true, /admin true, /Team:admin unknown"},
	} {
		candidates := NewCandidates()
		type one struct{ kind, namespace, name string }
		all := []one{{"Role", "ci", "admin"}, {"Role", "dev", "admin"}, {"ClusterRole", "", "admin"}, {"ClusterRole", "", "Team:admin"}}
		labels := map[one]map[string]string{all[2]: {"team": "a"}}
		for _, each := range all {
			must(t, candidates.Add(schema.GroupKind{Group: rbac, Kind: each.kind}, each.namespace, each.name, labels[each]))
		}
		candidates.Scan(read(t, c.scanned))
		var got []string
		for _, each := range all {
			answer := "false"
			switch used, err := candidates.Referenced(schema.GroupKind{Group: rbac, Kind: each.kind}, each.namespace, each.name, labels[each]); {
			case err != nil:
				answer = "unknown"
			case used:
				answer = "true"
			}
			got = append(got, each.namespace+"/"+each.name+" "+answer)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}
