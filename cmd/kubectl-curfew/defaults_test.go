package main

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/defaults"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/lint"
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

// with are the objects of testdata, and more.
func with(t *testing.T, text string) []runtime.Object {
	t.Helper()
	documents, errs := lint.Read(lint.Input{Data: []byte(text)}, lint.Limits{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	out := objects(t)
	for _, document := range documents {
		out = append(out, &unstructured.Unstructured{Object: document.Object})
	}
	return out
}

func TestDefaults(t *testing.T) {
	code, stdout, stderr, _ := executeIn(t, newFakeCluster(t, with(t, team)), scene{}, "defaults", "team")
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
}

func TestDefaultsForPrograms(t *testing.T) {
	_, stdout, _, _ := executeIn(t, newFakeCluster(t, with(t, team)), scene{}, "defaults", "-n", "team", "-o", "json")
	var data struct {
		Namespace, Mode string
		Items           []defaults.Item
		Unusable        []session.SettingData
	}
	if err := json.Unmarshal([]byte(stdout), &data); err != nil {
		t.Fatal(err)
	}
	expectSame(t, "namespace", data.Namespace, "team")
	expectSame(t, "mode", data.Mode, "enforce")
	if expectCount(t, "unusable settings", data.Unusable, 1); len(data.Unusable) == 1 {
		expectSame(t, "value of the unusable setting", data.Unusable[0].Value, "soon")
		expectSame(t, "source of the unusable setting", data.Unusable[0].Source, "namespace/team")
	}
	for _, item := range data.Items {
		if item.Kind != "Job" {
			continue
		}
		text, err := json.Marshal(item)
		want := `{"apiVersion":"batch/v1","kind":"Job","resource":"jobs",` +
			`"ttlSucceeded":{"path":"metadata.annotations[curfew.dev/default-ttl-succeeded]","value":"1h","source":"namespace/team"},` +
			`"ttlFailed":{"path":"metadata.annotations[curfew.dev/default-ttl-failed]","value":"2d","source":"namespace/team"},` +
			`"deadline":{"path":"spec.defaults.deadline.value","value":"2h","source":"policy/platform"},` +
			`"bounds":[{"path":"spec.bounds.minTTL","value":"10m","source":"policy/platform"},{"path":"metadata.annotations[curfew.dev/max-ttl]","value":"2d","source":"namespace/team"}],` +
			`"depends":["policy/selected"]}`
		if err != nil || string(text) != want {
			t.Errorf("%v: %s\nwant %s", err, text, want)
		}
		return
	}
	t.Errorf("no Job in %s", stdout)
}
