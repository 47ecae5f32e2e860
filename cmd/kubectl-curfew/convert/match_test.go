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
	const pods, all = "{any: [{resources: {kinds: [Pod]}}]}", "name: pr-1, namespace: ci-1, annotations: {team: a1}"
	for name, test := range map[string]struct {
		match, exclude string // by default Pods, and nothing
		objects        map[string]bool
	}{
		"all filters of match.all": {match: `{all: [{resources: {names: ["pr-*"]}}, {resources: {kinds: [Pod, apps/v1/Deployment]}},
			{resources: {kinds: [Pod, apps/*/Deployment], namespaces: ["ci-*"], annotations: {team: "a?"}}}, {resources: {selector: {matchLabels: {x: "1"}}}}]}`,
			objects: map[string]bool{
				"apiVersion: v1\nkind: Pod\nmetadata: {" + all + ", labels: {x: '1'}}":                                          true,
				"apiVersion: apps/v1\nkind: Deployment\nmetadata: {" + all + ", labels: {x: '1'}}":                              true,
				"apiVersion: v1\nkind: Service\nmetadata: {" + all + ", labels: {x: '1'}}":                                      false,
				"apiVersion: other.io/v1\nkind: Deployment\nmetadata: {" + all + ", labels: {x: '1'}}":                          false,
				"apiVersion: v1\nkind: Pod\nmetadata: {" + all + ", labels: {x: '2'}}":                                          false,
				"apiVersion: v1\nkind: Pod\nmetadata: {name: pr1, namespace: ci-1, annotations: {team: a1}, labels: {x: '1'}}":  false,
				"apiVersion: v1\nkind: Pod\nmetadata: {name: pr-1, namespace: ci, annotations: {team: a1}, labels: {x: '1'}}":   false,
				"apiVersion: v1\nkind: Pod\nmetadata: {name: pr-1, namespace: ci-1, annotations: {team: b1}, labels: {x: '1'}}": false,
				"apiVersion: v1\nkind: Pod\nmetadata: {name: pr-1, namespace: ci-1, labels: {x: '1'}}":                          false,
			}},
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
		"all filters of exclude.all": {exclude: `{all: [{resources: {kinds: [Pod], namespaces: [prod]}}, {resources: {names: ["keep-*"]}}]}`,
			objects: map[string]bool{
				"kind: Pod\nmetadata: {name: keep-1, namespace: prod}": false,
				"kind: Pod\nmetadata: {name: keep-1, namespace: ci}":   true,
				"kind: Pod\nmetadata: {name: x, namespace: prod}":      true,
			}},
		"exclusions that are no spec.exclude": {match: "{any: [{resources: {kinds: ['*']}}]}", exclude: `{any: [
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
		// To Kyverno, a cluster-scoped object is in a namespace without labels. spec.exclude keeps
		// the others.
		"a namespaceSelector excludes a volume": {match: "{any: [{resources: {kinds: [PersistentVolume, PersistentVolumeClaim]}}]}",
			exclude: "{any: [{resources: {namespaceSelector: {matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}}}]}",
			objects: map[string]bool{"kind: PersistentVolume\nmetadata: {namespace: null}": false, "kind: PersistentVolumeClaim": true}},
		"a namespaceSelector excludes no volume": {match: "{any: [{resources: {kinds: [PersistentVolume, PersistentVolumeClaim]}}]}",
			exclude: "{any: [{resources: {namespaceSelector: {matchExpressions: [{key: env, operator: In, values: [prod]}]}}}]}",
			objects: map[string]bool{"kind: PersistentVolume\nmetadata: {namespace: null}": true, "kind: PersistentVolumeClaim": true}},
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

// An object must match the kinds of each filter of match.all, as Kyverno reads them. An exclusion
// keeps at least what Kyverno keeps: objects of kinds with a wildcard, too.
func TestKindsInFilters(t *testing.T) {
	for kind, want := range map[string]struct{ matched, excluded bool }{
		"v1/Pod": {true, true}, "'*/Pod'": {true, true}, "'*'": {true, true}, "'*/*'": {true, true}, "'P*'": {true, true},
		"pod": {}, "Pod.status": {}, "Pod/status": {}, "v2/Pod": {false, true}, "apps/v1/Pod": {false, true}, "'*/*/Pod'": {false, true},
	} {
		matching := single(t, fmt.Sprintf(withMatch, "ClusterCleanupPolicy", "{all: [{resources: {kinds: [Pod]}}, {resources: {kinds: ["+kind+"]}}]}", "null"))
		excluding := single(t, fmt.Sprintf(withMatch, "ClusterCleanupPolicy", "{any: [{resources: {kinds: [Pod]}}]}", "{any: [{resources: {kinds: ["+kind+"], annotations: {a: b}}}]}"))
		const pod = "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {a: b}}"
		if matched, excluded := deletes(t, usable(t, matching), pod), !deletes(t, usable(t, excluding), pod); matched != want.matched || excluded != want.excluded {
			t.Errorf("%s: a Pod is matched: %t, and excluded: %t; want %+v", kind, matched, excluded, want)
		}
	}
}
