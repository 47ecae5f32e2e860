package main

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

const unusedPolicy = `apiVersion: curfew.dev/v1alpha1
kind: ClusterCleanupPolicy
metadata: {name: unused, uid: 66666666-2d0f-4c39-9f5a-6a4f6e1f4b7a, generation: 1, resourceVersion: "7", creationTimestamp: "2026-12-01T08:00:00Z"}
spec:
  schedule: "0 2 * * *"
  consecutiveRuns: 3
  matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps]}], objectSelector: {matchLabels: {app: demo}}}
`

// consecutive is a policy that has run twice, and the report page with the ConfigMaps that matched:
// demo in both runs, plain in the second.
func consecutive(t *testing.T) (policy, page *unstructured.Unstructured) {
	t.Helper()
	return unusedBy(t, "consecutiveRuns: 3")
}

// unusedBy is the same with another field.
func unusedBy(t *testing.T, field string) (policy, page *unstructured.Unstructured) {
	t.Helper()
	policy = &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(strings.Replace(unusedPolicy, "consecutiveRuns: 3", field, 1)), &policy.Object))
	compiled, errs, _ := cleanup.Read(expression.NewCompiler(1), policy)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	last := metav1.NewTime(noon.Add(-10 * time.Hour))
	var before cleanup.Matched
	left := &v1alpha1.CleanupMatches{Run: "20261224-0200-66666666", SpecHash: compiled.Hash, Pages: 1}
	var text []byte
	for day, names := range [][]types.UID{{"demo"}, {"demo", "plain"}} {
		matches := compiled.NewMatches(before, last.AddDate(0, 0, day-1))
		for _, uid := range names {
			must(t, matches.Add(uid))
		}
		matches.Again()
		for _, uid := range names {
			matches.Confirm(uid)
		}
		text = matches.Encode(last.AddDate(0, 0, day-1))
		left.ScheduledTime, left.SHA256 = metav1.NewTime(last.AddDate(0, 0, day-1)), cleanup.SumMatches(text)
		var err error
		before, err = compiled.ReadMatched(left, compiled.Schedule.Next(left.ScheduledTime.Time), func(int32) ([]byte, error) { return text, nil })
		must(t, err)
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.CleanupPolicyStatus{Matches: left})
	must(t, err)
	policy.Object["status"] = status
	page = &unstructured.Unstructured{Object: map[string]any{
		"policy": map[string]any{"name": "unused", "uid": string(policy.GetUID())}, "run": left.Run, "page": int64(1),
		"matched": base64.StdEncoding.EncodeToString(text),
	}}
	page.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterCleanupReport"))
	page.SetName("unused-matched-1")
	page.SetLabels(map[string]string{v1alpha1.LabelCleanupPolicyUID: string(policy.GetUID()), v1alpha1.LabelCleanupRun: left.Run})
	return policy, page
}

// A preview counts on from the last run, as the next run will. If the count is not known, the
// object is kept.
func TestPreviewOfConsecutiveRuns(t *testing.T) {
	const first = "would delete 0 of 3 objects\n\nSKIPPED           COUNT   FOR EXAMPLE\nConsecutiveRuns   3       ConfigMap default/demo: matched in 1 of 3 runs in a row: see consecutiveRuns\n"
	for name, c := range map[string]struct {
		line   string
		scene  scene
		edit   func(policy, page *unstructured.Unstructured)
		stdout string
		stderr string
	}{
		"counted":     {stdout: "would delete 1 of 3 objects\n\nKIND        NAMESPACE   COUNT\nConfigMap   default     1\n"},
		"object":      {line: "preview unused -o wide", stdout: "ConfigMap   default     plain    Skipped       matched in 2 of 3 runs in a row: see consecutiveRuns\n"},
		"when missed": {line: "preview unused --at 2026-12-26T02:00:00Z", stdout: first},
		"when due":    {line: "preview unused --at 2026-12-25T02:00:00Z", stdout: "would delete 1 of 3 objects"},
		"changed": {edit: func(policy, _ *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(policy.Object, true, "spec", "includeOwned")
		}, stdout: first},
		"page lost": {edit: func(_, page *unstructured.Unstructured) { page.SetLabels(nil) }, stdout: first},
		"may not list": {scene: scene{notMine: []string{"list clustercleanupreports"}}, stdout: first,
			stderr: "note: you may not list clustercleanupreports: in how many runs objects have matched before is not known\n"},
		"of a file": {line: "preview -f -", scene: scene{stdin: unusedPolicy}, stdout: first, stderr: "note: the policy is read from a file: this is its first run, and consecutiveRuns keeps all that it matches\n"},
		"report":    {line: "report unused --run 20261224-0200-66666666", stderr: "runs with one are none"},
	} {
		t.Run(name, func(t *testing.T) {
			policy, page := consecutive(t)
			if c.edit != nil {
				c.edit(policy, page)
			}
			if c.line == "" {
				c.line = "preview unused"
			}
			_, stdout, stderr, _ := executeIn(t, newFakeCluster(t, append(objects(t), policy, page)), c.scene, words(c.line)...)
			expectPart(t, "stdout", stdout, c.stdout, true)
			expectPart(t, "stderr", stderr, c.stderr, true)
		})
	}
}
