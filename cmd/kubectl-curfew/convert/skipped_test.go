package convert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

// Two selectors of namespaces apply together.
func TestMatchAllNamespaceSelectors(t *testing.T) {
	spec := single(t, fmt.Sprintf(withMatch, "ClusterCleanupPolicy", `{all: [
		{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {env: ci}}}},
		{resources: {namespaceSelector: {matchLabels: {team: a}}}}]}`, "null")).Spec
	selector, err := metav1.LabelSelectorAsSelector(spec.MatchConstraints.NamespaceSelector)
	if err != nil || spec.Suspend {
		t.Fatal(err, spec)
	}
	for _, c := range []struct {
		env, team string
		want      bool
	}{{"ci", "a", true}, {"ci", "b", false}, {"prod", "a", false}} {
		if have := selector.Matches(labels.Set{"env": c.env, "team": c.team}); have != c.want {
			t.Errorf("namespace of env %s, team %s: is matched: %t, want %t", c.env, c.team, have, c.want)
		}
	}
}

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
		"ReplicaSet, Deployment": {
			"kind: ReplicaSet\nmetadata: {name: a, namespace: b}": false,
			"kind: Deployment\nmetadata: {name: a, namespace: b}": true,
		},
		"Event": {"kind: Event\nmetadata: {name: a, namespace: b}": false},
		"Node":  {"kind: Node\nmetadata: {name: a, namespace: null}": false},
		"ClusterRole": {
			"kind: ClusterRole\nmetadata: {name: 'kyverno:x', namespace: null}": false,
			"kind: ClusterRole\nmetadata: {name: x, namespace: null}":           true,
		},
		"Namespace": {
			"kind: Namespace\nmetadata: {name: kube-public, namespace: null}": false,
			"kind: Namespace\nmetadata: {name: x, namespace: null}":           true,
		},
		"'*'": {
			"kind: ReplicaSet\nmetadata: {name: a, namespace: b}": false,
			"kind: Service\nmetadata: {name: a, namespace: b}":    true,
		},
	} {
		converted := single(t, fmt.Sprintf(withKind, kinds))
		compiled := usable(t, converted)
		expectDeletes(t, compiled, objects)
		if converted.Spec.Suspend != (kinds == "'*'") {
			t.Errorf("%s: suspended: %t", kinds, converted.Spec.Suspend)
		}
	}
}

// A ConfigMap among the documents replaces the default filters, wherever it stands.
func TestGivenResourceFilters(t *testing.T) {
	const configMap = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kyverno, namespace: kyverno}\ndata: {resourceFilters: %q}\n"
	filters := "[*/*,prod-*,*] [Secret,*,keep?] [v1/Secret/*,x,*]text[Service/*,a] [Pod/binding,*,*] [Namespace,ns,noone]"
	for kind, objects := range map[string]map[string]bool{
		"Secret": {
			"metadata: {name: a, namespace: prod-1}":  false,
			"metadata: {name: a, namespace: prod}":    true,
			"metadata: {name: keep1, namespace: ci}":  false,
			"metadata: {name: keep, namespace: ci}":   true,
			"metadata: {name: a, namespace: x}":       false,
			"metadata: {name: a, namespace: kyverno}": true,
		},
		"Service":    {"metadata: {name: b, namespace: a}": false, "metadata: {name: a, namespace: b}": true},
		"Pod":        {"metadata: {name: a, namespace: b}": true},
		"ReplicaSet": {"metadata: {name: a, namespace: b}": true},
		"Namespace":  {"metadata: {name: ns, namespace: null}": false, "metadata: {name: noone, namespace: null}": true},
	} {
		converted := single(t, fmt.Sprintf(withKind, kind)+fmt.Sprintf(configMap, filters))
		compiled := usable(t, converted)
		for object, want := range objects {
			if have := deletes(t, compiled, "kind: "+kind+"\n"+object); have != want || converted.Spec.Suspend {
				t.Errorf("%s: %s is deleted: %t, want %t; suspended: %t", kind, object, have, want, converted.Spec.Suspend)
			}
		}
	}
	for filters, keeps := range map[string]bool{"[*,*,*]": true, "[Secret,a,b,c]": false, strings.Repeat("[Event,*,*]", 1001): false} {
		converted := single(t, fmt.Sprintf(withKind, "Secret")+fmt.Sprintf(configMap, filters))
		compiled := usable(t, converted)
		if kept := !deletes(t, compiled, "kind: Secret"); kept != keeps || converted.Spec.Suspend == keeps {
			t.Errorf("%.20s: a Secret is kept: %t, want %t; suspended: %t", filters, kept, keeps, converted.Spec.Suspend)
		}
	}
}

// A restriction that the policy leaves out is Broader. A condition that is never true is not.
func TestBroaderFindings(t *testing.T) {
	for match, want := range map[string]bool{
		`{any: [{resources: {kinds: [Pod], surprise: 1}}]}`:                                 true,
		`{any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {x: "a*"}}}}]}`: false,
		`{any: [{resources: {kinds: [Pod, Widget]}}]}`:                                      false,
	} {
		result := convert.Source("", []byte(fmt.Sprintf(withMatch, "ClusterCleanupPolicy", match, "null")), options)
		broader := slices.ContainsFunc(result.Findings, func(f convert.Finding) bool { return f.Broader })
		if broader != want {
			t.Errorf("%s: broader is %t, want %t: %v", match, broader, want, result.Findings)
		}
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
