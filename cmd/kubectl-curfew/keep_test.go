package main

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// TestKeepByExemptUsers: where a policy denies protection, keep protects a TrainJob for users who
// may update that policy, as admission does.
func TestKeepByExemptUsers(t *testing.T) {
	denies := manifests(t, "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: strict, uid: strict}, "+
		"spec: {match: {kinds: [{group: trainer.kubeflow.org, kind: TrainJob}]}, bounds: {protect: Deny}}}")
	for name, test := range map[string]struct {
		notMine    []string
		code, sent int
		stderr     string
	}{
		"exempt": {sent: 1, stderr: "warning: "},
		"others": {notMine: []string{"update lifecyclepolicies"}, code: console.ExitBadNews,
			stderr: `would be refused: metadata.annotations[curfew.dev/protect]: is against bounds.protect of policy "strict": leave it out, or ask for the verb update on that LifecyclePolicy` + "\n"},
		"no answer": {notMine: []string{"create selfsubjectaccessreviews"}, code: console.ExitBadNews, stderr: "(whether you may is not known)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, sent := expectRun(t, newFakeCluster(t, append(objects(t), denies...)), scene{notMine: test.notMine}, "keep trainjob/tune -n lab", test.code)
			expectCount(t, "requests", sent, test.sent)
			expectPart(t, "stderr", stderr, test.stderr, true)
		})
	}
}

// TestKeepFromCleanupPolicies: keep protects an object that the next run of a cleanup policy may
// delete, with or without a TTL. If the user may not read policies, a note names the annotation.
func TestKeepFromCleanupPolicies(t *testing.T) {
	const protects = `"curfew.dev/protect":"true"`
	job := manifests(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: old, namespace: attic, uid: old, creationTimestamp: "2026-12-24T05:00:00Z"},
		spec: {ttlSecondsAfterFinished: 864000}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-12-24T06:00:00Z"}]}}`)
	jobs := spec("matchConstraints.resourceRules", []any{map[string]any{"apiGroups": []any{"batch"}, "resources": []any{"jobs"}}})
	list := `{"apiVersion": "cli.curfew.dev/v1alpha1", "kind": "ExpiryList", "items": [{"trigger": "cleanup", "object": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "attic", "name": "first"}}]}`
	for name, test := range map[string]struct {
		line, stdin    string
		edit           func(*unstructured.Unstructured)
		notMine        []string
		sent           []string // parts of the patch; none: nothing is sent
		stdout, stderr string
	}{
		"no TTL":     {line: "keep cm/first -n attic", sent: []string{protects}, stdout: "configmap/first kept: stays (was: 2026-12-24 19:00:00 CET)\n", stderr: "warning: configmap/first in namespace attic: the next run of cleanup/attic/tonight may delete it, so the object is protected\n"},
		"a list":     {line: "keep -f -", stdin: list, sent: []string{protects}},
		"a TTL":      {line: "keep job/old -n attic", edit: jobs, sent: []string{protects, `"curfew.dev/ttl-after-finished":"never"`}, stdout: "kept: stays (was: 2026-12-24 19:00:00 CET)\n"},
		"unsure":     {line: "keep cm/first -n attic", edit: spec("maxDeletions", int64(0), "onExceed", "Truncate"), sent: []string{protects}},
		"protected":  {line: "keep cm/kept -n attic", stdout: "unchanged: has no expiry\n"},
		"not yet":    {line: "keep cm/later -n attic", stdout: "unchanged: has no expiry\n"},
		"unread":     {line: "keep cm/first -n attic", notMine: []string{"list cleanuppolicies"}, stdout: "unchanged: has no expiry\n", stderr: "note: to keep an object from cleanup policies that are not known as well, annotate it: kubectl annotate KIND/NAME curfew.dev/protect=true\n"},
		"expire-now": {line: "expire-now -f -", stdin: list, stderr: "note: left out 1 object that only cleanup policies delete: name them to change them, or use kubectl curfew keep\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, slices.Concat(objects(t), attic(t, test.edit), job))
			stdout, stderr, sent := expectRun(t, cluster, scene{notMine: test.notMine, stdin: test.stdin}, test.line, console.ExitOK)
			expectPart(t, "stdout", stdout, test.stdout, true)
			expectPart(t, "stderr", stderr, test.stderr, true)
			expectCount(t, "patches", sent, min(len(test.sent), 1))
			for _, part := range test.sent {
				expectPart(t, "patch", strings.Join(sent, ""), part, true)
			}
		})
	}
}
