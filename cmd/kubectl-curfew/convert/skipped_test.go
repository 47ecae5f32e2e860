package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

const withKind = `
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: a}
spec: {schedule: "@daily", deletionPropagationPolicy: Background, match: {any: [{resources: {kinds: [%s]}}]}}
`

// Objects that Kyverno skips are not deleted: those that it manages, and those that its default
// resourceFilters name.
func TestDefaultResourceFilters(t *testing.T) {
	for kinds, objects := range map[string]map[string]bool{
		"ConfigMap": {
			"metadata: {name: a, namespace: b}":                                                  true,
			"metadata: {name: a, namespace: b, labels: {app.kubernetes.io/managed-by: Helm}}":    true,
			"metadata: {name: a, namespace: b, labels: {app.kubernetes.io/managed-by: kyverno}}": false,
			"metadata: {name: a, namespace: kyverno}":                                            false,
			"metadata: {name: a, namespace: kube-system}":                                        false,
		},
		"ReplicaSet, Deployment": {"kind: ReplicaSet\nmetadata: {name: a, namespace: b}": false, "kind: Deployment\nmetadata: {name: a, namespace: b}": true},
		"Event":                  {"kind: Event\nmetadata: {name: a, namespace: b}": false},
		"Node":                   {"kind: Node\nmetadata: {name: a, namespace: null}": false},
		"ClusterRole":            {"kind: ClusterRole\nmetadata: {name: 'kyverno:x', namespace: null}": false, "kind: ClusterRole\nmetadata: {name: x, namespace: null}": true},
		"Namespace":              {"kind: Namespace\nmetadata: {name: kube-public, namespace: null}": false, "kind: Namespace\nmetadata: {name: x, namespace: null}": true},
	} {
		converted := single(t, fmt.Sprintf(withKind, kinds))
		compiled := usable(t, converted)
		expectDeletes(t, compiled, objects)
		if converted.Spec.Suspend {
			t.Errorf("%s: suspended", kinds)
		}
	}
}

// A ConfigMap among the documents replaces the default filters, wherever it stands.
func TestGivenResourceFilters(t *testing.T) {
	const configMap = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kyverno, namespace: kyverno}\ndata: {resourceFilters: %q}\n"
	filters := "[*/*,prod-*,*] [Secret,*,keep?] [v1/Secret/*,x,*]text[Service/*,a] [Pod/binding,*,*] [Namespace,ns,noone] " +
		"[v1/Secret.*,dot,*] [*.*,dots,*] [v1/*,core,*] [apps/v1/*,apps,*] [*,ns2,noone]"
	for kind, objects := range map[string]map[string]bool{
		"Secret": {
			"metadata: {name: a, namespace: prod-1}":  false,
			"metadata: {name: a, namespace: prod}":    true,
			"metadata: {name: keep1, namespace: ci}":  false,
			"metadata: {name: keep, namespace: ci}":   true,
			"metadata: {name: a, namespace: x}":       false,
			"metadata: {name: a, namespace: kyverno}": true,
			"metadata: {name: a, namespace: dot}":     false,
			"metadata: {name: a, namespace: core}":    false,
		},
		"Service":    {"metadata: {name: b, namespace: a}": false, "metadata: {name: a, namespace: b}": true},
		"Pod":        {"metadata: {name: a, namespace: b}": true, "metadata: {name: a, namespace: dot}": true, "metadata: {name: a, namespace: dots}": false, "metadata: {name: a, namespace: x}": true},
		"ReplicaSet": {"metadata: {name: a, namespace: b}": true, "metadata: {name: a, namespace: apps}": false},
		"Namespace":  {"metadata: {name: ns, namespace: null}": false, "metadata: {name: ns2, namespace: null}": false, "metadata: {name: noone, namespace: null}": true},
	} {
		converted := single(t, fmt.Sprintf(withKind, kind)+fmt.Sprintf(configMap, filters))
		compiled := usable(t, converted)
		for object, want := range objects {
			if have := deletes(t, compiled, "kind: "+kind+"\n"+object); have != want || converted.Spec.Suspend {
				t.Errorf("%s: %s is deleted: %t, want %t; suspended: %t", kind, object, have, want, converted.Spec.Suspend)
			}
		}
	}
	for filters, suspended := range map[string]bool{"[*,*,*]": false, "[Secret,a,b,c]": true} {
		converted := single(t, fmt.Sprintf(withKind, "Secret")+fmt.Sprintf(configMap, filters))
		compiled := usable(t, converted)
		if deletes(t, compiled, "kind: Secret") || converted.Spec.Suspend != suspended {
			t.Errorf("%s: a Secret is deleted, or suspended is %t, want %t", filters, converted.Spec.Suspend, suspended)
		}
	}
	// A custom kind may have the plural of a kind of Kubernetes.
	const pods = `{apiVersion: policies.kyverno.io/v1, kind: DeletingPolicy, metadata: {name: p}, spec: {schedule: "@daily", matchConstraints: {resourceRules: [{apiGroups: [acme.io], apiVersions: [v1], resources: [pods]}]}}}`
	compiled := usable(t, single(t, pods+fmt.Sprintf(configMap, "[Session,ci,*]")))
	if deletes(t, compiled, "kind: Session") || !deletes(t, compiled, "kind: Session\nmetadata: {namespace: dev}") {
		t.Error("the filter of a custom kind does not apply")
	}
}

// Hostile documents are refused, and others are still converted.
func TestHostileDocuments(t *testing.T) {
	bomb := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 2000) + "]\n"
	nested := strings.Repeat(`{"kind": "List", "items": [`, 5) + strings.Repeat("]}", 5)
	for _, hostile := range []string{bomb, nested, "a: 1\na: 2", "a: &a [*a]"} {
		result := convert.Source("", []byte(hostile+"\n---\n"+fmt.Sprintf(withKind, "Pod")), options)
		if len(result.Policies) != 1 || !result.Findings[0].Lost {
			t.Errorf("%.20s: %d policies, %v", hostile, len(result.Policies), result.Findings)
		}
	}
}
