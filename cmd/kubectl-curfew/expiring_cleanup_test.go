package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// tonight runs every six hours, next at 19:00 CET, and deletes ConfigMaps that are older than a
// time.
const tonight = `apiVersion: curfew.dev/v1alpha1
kind: CleanupPolicy
metadata: {name: tonight, namespace: attic, uid: 77777777-2d0f-4c39-9f5a-6a4f6e1f4b7a, generation: 1, resourceVersion: "7", creationTimestamp: "2026-12-01T08:00:00Z"}
spec:
  schedule: "0 */6 * * *"
  serviceAccountName: janitor
  matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps]}]}
  conditions: [{name: old, expression: now - timestamp(object.metadata.creationTimestamp) > duration("10h")}]
`

func attic(t *testing.T, edit func(policy *unstructured.Unstructured)) []runtime.Object {
	t.Helper()
	policy := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(tonight), &policy.Object); err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(policy)
	}
	out := []runtime.Object{policy, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "attic", "uid": "attic"}}}}
	for name, created := range map[string]string{"first": "2026-12-24T05:00:00Z", "later": "2026-12-24T11:00:00Z", "kept": "2026-12-24T05:00:00Z"} {
		object := map[string]any{"name": name, "namespace": "attic", "uid": "attic-" + name, "creationTimestamp": created, "labels": map[string]any{"name": name}}
		if name == "kept" {
			object["annotations"] = map[string]any{"curfew.dev/protect": "true"}
		}
		out = append(out, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object}})
	}
	return out
}

func spec(values ...any) func(*unstructured.Unstructured) {
	return func(policy *unstructured.Unstructured) {
		for i := 0; i < len(values); i += 2 {
			name, _ := values[i].(string)
			_ = unstructured.SetNestedField(policy.Object, values[i+1], append([]string{"spec"}, strings.Split(name, ".")...)...)
		}
	}
}

// ofTheCluster makes it a ClusterCleanupPolicy with a limit that other namespaces would exceed.
func ofTheCluster(policy *unstructured.Unstructured) {
	policy.SetKind("ClusterCleanupPolicy")
	policy.SetNamespace("")
	spec("maxDeletions", int64(0), "serviceAccountNamespace", "attic", "matchConstraints.namespaceSelector", map[string]any{})(policy)
}

// TestExpiringByCleanupPolicy: the next runs are in the list, judged at their own time, and what is
// not known of them is said.
func TestExpiringByCleanupPolicy(t *testing.T) {
	const (
		first    = "configmap/first 2026-12-24 19:00:00 CET 6h cleanup cleanup/attic/tonight -\n"
		later    = "configmap/later by 2026-12-25 01:00:00 CET 12h cleanup cleanup/attic/tonight -\n"
		unsure   = "configmap/first 2026-12-24 19:00:00 CET 6h cleanup cleanup/attic/tonight ?\n"
		idle     = "note: these cleanup policies delete nothing as they are: cleanup/attic/tonight ("
		unlisted = "note: you may not list clustercleanuppolicies: what these delete is not known\n"
	)
	for name, c := range map[string]struct {
		line    string
		edit    func(*unstructured.Unstructured)
		notMine []string
		stdout  string
		stderr  string
	}{
		"tonight":            {line: "-n attic --within 6h", stdout: first},
		"everywhere":         {line: "-A --within 6h --source cleanup/attic/tonight", stdout: "attic " + first},
		"two runs":           {line: "-n attic --within 12h", stdout: first + later},
		"the second run":     {line: "-n attic --between 7h..13h", stdout: strings.NewReplacer("19:00", "01:00", "24 ", "25 ", "6h", "12h").Replace(first) + strings.Replace(later, "by ", "", 1)},
		"too early":          {line: "-n attic --within 5h"},
		"next run":           {line: "-n attic", stdout: first},
		"label":              {line: "-n attic --within 12h -l name=later", stdout: later},
		"trigger":            {line: "-n attic --trigger cleanup", stdout: first},
		"another trigger":    {line: "-n attic --trigger label"},
		"another kind":       {line: "secrets -n attic"},
		"another namespace":  {line: "configmaps -n foo"},
		"TTL":                {line: "-n attic --ttl-longer-than 1m"},
		"suspended":          {line: "-n attic --trigger cleanup", edit: spec("suspend", true), stderr: idle + "suspended"},
		"dry run":            {line: "-n attic --trigger cleanup", edit: spec("dryRun", true), stderr: idle + "dry run"},
		"not approved":       {line: "-n attic --trigger cleanup", edit: spec("approval", "Required"), stderr: idle + "not approved"},
		"approval not known": {line: "-n attic", edit: spec("approval", "Required"), notMine: []string{"list cleanupapprovals"}, stdout: unsure},
		"stalled":            {line: "-n attic --trigger cleanup", edit: spec("maxDeletions", int64(0)), stderr: idle + "TooManyMatches"},
		"truncated":          {line: "-n attic", edit: spec("maxDeletions", int64(0), "onExceed", "Truncate"), stdout: unsure},
		"limit of more":      {line: "configmaps -n attic", edit: spec("maxDeletions", int64(9)), stdout: unsure},
		"newest":             {line: "-n attic", edit: spec("keepNewest", map[string]any{"count": int64(1)})},
		"own rights":         {line: "-n attic", notMine: []string{"impersonate serviceaccounts"}, stdout: unsure},
		"may not list": {line: "-n attic", notMine: []string{"impersonate serviceaccounts", "list configmaps"},
			stderr: "note: not known what a run deletes: cleanup/attic/tonight: you may not list configmaps in namespace \"attic\"\n"},
		"of the cluster": {line: "-n attic", edit: ofTheCluster, stdout: strings.Replace(unsure, "attic/", "", 1)},
		"tenant":         {line: "-n attic", notMine: []string{"list clustercleanuppolicies"}, stdout: first, stderr: unlisted},
		"tenant II":      {line: "-n attic", notMine: []string{"list clustercleanuppolicies", "list cleanuppolicies"}, stderr: "note: you may not list clustercleanuppolicies and cleanuppolicies: what these delete is not known\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, append(objects(t), attic(t, c.edit)...))
			code, stdout, stderr, _ := executeIn(t, cluster, scene{notMine: c.notMine}, append([]string{"expiring", "--no-headers"}, words(c.line)...)...)
			have := ""
			for line := range strings.Lines(stdout) {
				have += strings.Join(strings.Fields(line), " ") + "\n"
			}
			if code != exitOK || have != c.stdout || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit status %d:\n%s%s\nwant\n%s%s", code, have, stderr, c.stdout, c.stderr)
			}
		})
	}
}

// TestExpiringCostsTwoLists: where there is no cleanup policy, the command lists both kinds of them
// once, asks for no permission and lists no other kind twice.
func TestExpiringCostsTwoLists(t *testing.T) {
	var others []runtime.Object
	for _, object := range objects(t) {
		if u, ok := object.(*unstructured.Unstructured); ok && !strings.HasSuffix(u.GetKind(), "CleanupPolicy") {
			others = append(others, object)
		}
	}
	lists := map[string]int{}
	cluster := newFakeCluster(t, others)
	if code, _, stderr, _ := executeIn(t, cluster, scene{}, "expiring", "-A"); code != exitOK {
		t.Fatal(stderr)
	}
	for _, action := range cluster.actions() {
		if action.GetVerb() == "list" || action.GetResource().Resource == "selfsubjectaccessreviews" {
			lists[action.GetResource().Resource]++
		}
	}
	for _, kind := range []string{"cleanuppolicies", "clustercleanuppolicies", "configmaps", "deployments"} {
		if lists[kind] != 1 {
			t.Errorf("%s are listed %d times", kind, lists[kind])
		}
	}
	if lists["selfsubjectaccessreviews"]+lists["cleanupapprovals"] > 0 {
		t.Errorf("asked for %v", lists)
	}
}
