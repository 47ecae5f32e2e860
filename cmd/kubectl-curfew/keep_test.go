package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestKeepByExemptUsers: where a policy denies protection, keep protects a TrainJob for users who
// may update that policy, as admission does.
func TestKeepByExemptUsers(t *testing.T) {
	denies := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "curfew.dev/v1alpha1", "kind": "LifecyclePolicy",
		"metadata": map[string]any{"name": "strict", "uid": "strict"},
		"spec": map[string]any{"match": map[string]any{"kinds": []any{map[string]any{"group": "trainer.kubeflow.org", "kind": "TrainJob"}}},
			"bounds": map[string]any{"protect": "Deny"}}}}
	for name, test := range map[string]struct {
		notMine    []string
		code, sent int
		stderr     string
	}{
		"exempt": {sent: 1, stderr: "warning: "},
		"others": {notMine: []string{"update lifecyclepolicies"}, code: exitBadNews,
			stderr: `would be refused: metadata.annotations[curfew.dev/protect]: is against bounds.protect of policy "strict": leave it out, or ask for the verb update on that LifecyclePolicy` + "\n"},
		"nobody answers": {notMine: []string{"create selfsubjectaccessreviews"}, code: exitBadNews, stderr: "(whether you may is not known)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, append(objects(t), denies))
			code, stdout, stderr, sent := executeIn(t, cluster, scene{notMine: test.notMine}, words("keep trainjob/tune -n lab")...)
			if code != test.code || len(sent) != test.sent || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit status %d, sent %q\n%s%s", code, sent, stdout, stderr)
			}
		})
	}
}
