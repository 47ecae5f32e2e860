package convert_test

import (
	"fmt"
	"testing"
)

const withMatch = `
apiVersion: kyverno.io/v2
kind: %s
metadata: {name: p, namespace: ci}
spec: {schedule: "@daily", match: %s, exclude: %s}
`

// A policy deletes what Kyverno deletes by its match, and keeps what its exclude keeps. Near misses
// of either go the other way.
func TestMatchAndExclude(t *testing.T) {
	const pods = "{any: [{resources: {kinds: [Pod]}}]}"
	for name, test := range map[string]struct {
		match, exclude string // by default Pods, and nothing
		objects        map[string]bool
	}{
		"patterns of a match": {match: `{any: [{resources: {kinds: [Pod], selector: {matchLabels: {app: "a*"}}, annotations: {"team": "b?"}, namespaces: ["ci-*", test]}}]}`,
			objects: map[string]bool{
				"metadata: {namespace: ci-1, labels: {app: ab}, annotations: {team: b1}}":  true,
				"metadata: {namespace: test, labels: {app: a}, annotations: {team: b1}}":   true,
				"metadata: {namespace: ci, labels: {app: ab}, annotations: {team: b1}}":    false,
				"metadata: {namespace: ci-1, labels: {app: ba}, annotations: {team: b1}}":  false,
				"metadata: {namespace: ci-1, annotations: {team: b1}}":                     false,
				"metadata: {namespace: ci-1, labels: {app: ab}, annotations: {team: b}}":   false,
				"metadata: {namespace: ci-1, labels: {app: ab}}":                           false,
				"metadata: {namespace: ci-1, labels: {app: ab}, annotations: {team: b12}}": false,
			}},
		"a single filter of exclude.all": {exclude: `{all: [{resources: {kinds: [Pod], namespaces: [prod]}}]}`,
			objects: map[string]bool{"kind: Pod\nmetadata: {namespace: prod}": false, "kind: Pod\nmetadata: {namespace: ci}": true}},
		"exclusions": {match: "{any: [{resources: {kinds: [Pod, Deployment]}}]}", exclude: `{any: [
			{resources: {kinds: [Deployment, batch/v1/Job], names: ["keep-*", base]}},
			{resources: {namespaces: ["prod-*"], annotations: {"team": "a?"}}},
			{resources: {annotations: {"keep": "*"}}},
			{resources: {selector: {matchLabels: {x: "1"}, matchExpressions: [{key: z, operator: NotIn, values: ["2"]}]}}}]}`,
			objects: map[string]bool{
				"kind: Job\nmetadata: {name: keep-1}":                               false,
				"kind: Deployment\nmetadata: {name: base}":                          false,
				"kind: Pod\nmetadata: {name: keep-1}":                               true,
				"kind: Job\nmetadata: {name: keep}":                                 true,
				"kind: Pod\nmetadata: {namespace: prod-1, annotations: {team: a1}}": false,
				"kind: Pod\nmetadata: {namespace: prod-1, annotations: {team: a}}":  true,
				"kind: Pod\nmetadata: {namespace: prod, annotations: {team: a1}}":   true,
				"kind: Pod\nmetadata: {namespace: prod-1}":                          true,
				"kind: Pod\nmetadata: {annotations: {keep: \"until\\nMay\"}}":       false,
				"kind: Pod\nmetadata: {labels: {x: '1'}}":                           false,
				"kind: Pod\nmetadata: {labels: {x: '1', z: '3'}}":                   false,
				"kind: Pod\nmetadata: {labels: {x: '1', z: '2'}}":                   true,
				"kind: Pod\nmetadata: {labels: {x: '2'}}":                           true,
			}},
		// Kyverno compares the namespaces of a filter with the names of Namespaces.
		"a Namespace is excluded by its name": {match: "{any: [{resources: {kinds: [Namespace]}}]}", exclude: "{any: [{resources: {namespaces: [production]}}]}",
			objects: map[string]bool{"metadata: {name: production, namespace: null}": false, "metadata: {name: preview, namespace: null}": true}},
		"a Namespace is matched by its name": {match: "{any: [{resources: {kinds: [Namespace], namespaces: [a]}}]}",
			objects: map[string]bool{"kind: Namespace\nmetadata: {name: a, namespace: null}": true, "kind: Namespace\nmetadata: {name: b, namespace: null}": false}},
	} {
		t.Run(name, func(t *testing.T) {
			match, exclude := test.match, test.exclude
			if match == "" {
				match = pods
			}
			if exclude == "" {
				exclude = "null"
			}
			converted := single(t, fmt.Sprintf(withMatch, "ClusterCleanupPolicy", match, exclude))
			expectDeletes(t, usable(t, converted), test.objects)
		})
	}
}

// An exclusion keeps at least what Kyverno keeps: objects of kinds with a wildcard, too.
func TestKindsInExclusions(t *testing.T) {
	for kind, want := range map[string]bool{
		"v1/Pod": true, "'*/Pod'": true, "'*'": true, "'*/*'": true, "'P*'": true, "v2/Pod": true, "apps/v1/Pod": true, "'*/*/Pod'": true,
		"Pod/*": true, "'*/Pod.*'": true, "'*.*'": true, "Service/*": false, "pod": false, "Pod.status": false, "Pod/status": false,
	} {
		excluding := single(t, fmt.Sprintf(withMatch, "ClusterCleanupPolicy", "{any: [{resources: {kinds: [Pod]}}]}", "{any: [{resources: {kinds: ["+kind+"], annotations: {a: b}}}]}"))
		const pod = "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {a: b}}"
		if excluded := !deletes(t, usable(t, excluding), pod); excluded != want {
			t.Errorf("%s: a Pod is excluded: %t, want %t", kind, excluded, want)
		}
	}
}
