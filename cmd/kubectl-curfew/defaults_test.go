package main

import (
	"strings"
	"testing"
)

// team is a namespace with some unreadable settings, and policies; one of these looks at
// the object.
const team = `apiVersion: v1
kind: Namespace
metadata:
  name: team
  annotations:
    curfew.dev/default-ttl-succeeded: 1h
    curfew.dev/default-ttl-failed: 3d
    curfew.dev/default-pod-ttl: soon
    curfew.dev/max-ttl: 2d
---
apiVersion: curfew.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: platform}
spec:
  defaults: {ttl: {value: 5h}, deadline: {value: 2h}}
  bounds: {minTTL: 10m}
---
apiVersion: curfew.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: previews}
spec:
  match: {kinds: [{kind: ConfigMap}]}
  defaults: {ttlLabel: {value: 7d}}
---
apiVersion: curfew.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: selected}
spec:
  priority: 10
  match: {kinds: [{group: batch, kind: Job}], objectSelector: {matchLabels: {app: x}}}
  defaults: {ttl: {value: 1h}, deadline: {value: 1h}}
---
apiVersion: curfew.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: elsewhere}
spec:
  match: {namespaceSelector: {matchLabels: {team: other}}, objectSelector: {matchLabels: {app: x}}}
  defaults: {deadline: {value: 1h}}
`

func TestDefaults(t *testing.T) {
	code, stdout, stderr, _ := executeIn(t, newFakeCluster(t, append(objects(t), manifests(t, team)...)), scene{}, "defaults", "team")
	rows := map[string]string{}
	for row := range strings.Lines(stdout) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(row), " ")
		rows[kind] = strings.Join(strings.Fields(rest), " ")
	}
	for kind, want := range map[string]string{
		"KIND":       "TTL AFTER SUCCESS TTL AFTER FAILURE DEADLINE TTL LABEL BOUNDS",
		"jobs.batch": "1h (namespace/team) 2d (namespace/team) 2h (policy/platform) - minTTL 10m (policy/platform), max-ttl 2d (namespace/team)",
		"pods":       "unusable (namespace/team) unusable (namespace/team) - - minTTL 10m (policy/platform), max-ttl 2d (namespace/team)",
		"configmaps": "- - - 2d (policy/previews) max-ttl 2d (namespace/team)",
	} {
		if rows[kind] != want {
			t.Errorf("%s: %q, want %q", kind, rows[kind], want)
		}
	}
	for _, absent := range []string{"secrets", "namespaces", "deployments.apps"} {
		if _, ok := rows[absent]; ok {
			t.Errorf("%s is listed", absent)
		}
	}
	for _, want := range []string{
		`note: metadata.annotations[curfew.dev/default-pod-ttl] of namespace "team" cannot be used: "soon" is not a duration`,
		"note: policy/selected may decide otherwise for single objects of jobs.batch\n",
		"note: its runtime may decide otherwise for single objects of trainjobs.trainer.kubeflow.org\n",
	} {
		expectPart(t, "stderr", stderr, want, true)
	}
	expectExit(t, "the command", code, 0, stderr)
	expectPart(t, "stderr", stderr, "elsewhere", false)
	_, stdout, _, _ = executeIn(t, newFakeCluster(t, append(objects(t), manifests(t, team)...)), scene{}, "defaults", "-n", "team", "-o",
		"jsonpath={.namespace} {.mode} {.unusable[*].value} {.items[?(@.kind=='Job')]}")
	expectSame(t, "output for programs", stdout, `team enforce soon {"apiVersion":"batch/v1","bounds":[{"path":"spec.bounds.minTTL","source":"policy/platform","value":"10m"},`+
		`{"path":"metadata.annotations[curfew.dev/max-ttl]","source":"namespace/team","value":"2d"}],`+
		`"deadline":{"path":"spec.defaults.deadline.value","source":"policy/platform","value":"2h"},"depends":["policy/selected"],"kind":"Job","resource":"jobs",`+
		`"ttlFailed":{"path":"metadata.annotations[curfew.dev/default-ttl-failed]","source":"namespace/team","value":"2d"},`+
		`"ttlSucceeded":{"path":"metadata.annotations[curfew.dev/default-ttl-succeeded]","source":"namespace/team","value":"1h"}}`)
}
