package lifecycle

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/harness"
)

// short is a policy that has Jobs with its label deleted soon after they finished. MATCH is more of
// its match.
const short = `{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: NAME}, spec: {match: {MATCH kinds: [{group: batch, kind: Job}],
	objectSelector: {matchLabels: {policy: NAME}}}, defaults: {ttl: {value: 3s}}}}`

func shortPolicy(name, match string) string {
	return strings.NewReplacer("NAME", name, "MATCH", match).Replace(short)
}

// A policy with a field that only a newer Curfew knows deletes nothing, after a rollback that kept
// the newer CustomResourceDefinitions, and after one that did not (S6). Without the field, it runs
// again. If the field was recorded, no edit has that effect: the policy is created again.
func TestPolicyOfANewerVersion(t *testing.T) {
	f := newFixture(t)
	f.start(suite.cluster)
	f.ok(suite.cluster.NewNamespace(f.ctx, "ci", nil))
	f.kubectl("", "patch", "crd", "lifecyclepolicies.curfew.dev", "--type=json", "-p",
		`[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/match/properties/idleFor", "value": {"type": "string"}}]`)
	f.await("the newer schema, and the denial of what this version does not know", func(ctx context.Context) (bool, error) {
		stdout, stderr, _ := suite.cluster.KubectlInput(ctx, shortPolicy("newer", "idleFor: 1h,"), "create", "--dry-run=server", "-f", "-")
		return strings.Contains(stdout+stderr, "spec.match.idleFor: this version of Curfew does not know it"), nil
	})
	f.ok(f.webhook.Stop(f.ctx)) // As a newer webhook, it does not deny the policy.
	f.kubectl(shortPolicy("newer", "idleFor: 1h,"), "create", "-f", "-")
	f.kubectl(shortPolicy("dropped", ""), "create", "-f", "-")
	f.record("dropped", `{"type": "Requires", "status": "True", "reason": "NewerFields", "observedGeneration": 1,
		"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "v99.0.0: spec.match.idleFor"}`)
	f.kubectl(shortPolicy("known", ""), "create", "-f", "-")
	for _, name := range []string{"newer", "dropped"} {
		f.kubectl("", "wait", "lifecyclepolicy", name, "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=NeedsNewerVersion", "--timeout=10m")
	}
	f.kubectl("", "wait", "lifecyclepolicy", "known", "--for=condition=Ready", "--timeout=10m")
	jobs := suite.cluster.Client.BatchV1().Jobs("ci")
	gone := func(name string) {
		t.Helper()
		f.await("job/"+name+" to be deleted", func(ctx context.Context) (bool, error) {
			_, err := jobs.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	}
	f.nextSecond()
	for _, name := range []string{"newer", "dropped", "known"} { // The last one is due last.
		f.kubectl(object(name, "ci", name, ""), "create", "-f", "-")
	}
	gone("known")
	for _, name := range []string{"newer", "dropped"} {
		if _, err := jobs.Get(f.ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("job/%s, which a policy of a newer version may keep: %v", name, err)
		}
		output, _, _ := suite.cluster.Kubectl(f.ctx, "curfew", "explain", "job/"+name, "-n", "ci")
		f.says(output, "spec.match.idleFor")
		output, warned, _ := suite.cluster.Kubectl(f.ctx, "curfew", "status")
		f.says(output+warned, "LifecyclePolicy "+name+" cannot be used: spec.match.idleFor")
	}
	f.kubectl("", "patch", "lifecyclepolicy", "newer", "--type=json", "-p", `[{"op": "remove", "path": "/spec/match/idleFor"}]`)
	f.kubectl("", "patch", "lifecyclepolicy", "dropped", "--type=merge", "-p", `{"spec": {"warnBelow": "90s"}}`)
	f.kubectl("", "wait", "lifecyclepolicy", "dropped", "--for=jsonpath={.status.conditions[?(@.type==\"Requires\")].observedGeneration}=2", "--timeout=10m")
	gone("newer")
	if _, err := jobs.Get(f.ctx, "dropped", metav1.GetOptions{}); err != nil {
		t.Errorf("job/dropped, after an edit: %v", err)
	}
	f.kubectl("", "delete", "lifecyclepolicy", "dropped")
	f.kubectl(shortPolicy("dropped", ""), "create", "-f", "-")
	f.kubectl("", "wait", "lifecyclepolicy", "dropped", "--for=condition=Ready", "--timeout=10m")
	f.nextSecond()
	f.kubectl(object("again", "ci", "dropped", ""), "create", "-f", "-")
	gone("again")
}

// nextSecond waits for the next whole second: an object that was created in the same one as a policy
// counts as older than its defaults.
func (f *fixture) nextSecond() {
	f.Helper()
	next := time.Now().Truncate(time.Second).Add(time.Second)
	f.await("the next second", func(context.Context) (bool, error) { return !time.Now().Before(next), nil })
}

// record writes a condition of a LifecyclePolicy as the controller does. kubectl would read the
// status subresource before, which the account may not.
func (f *fixture) record(policy, condition string) {
	f.Helper()
	config := rest.CopyConfig(suite.cluster.Config)
	config.Impersonate.UserName = "system:serviceaccount:" + harness.Namespace + ":curfew-controller"
	client, err := dynamic.NewForConfig(config)
	f.ok(err)
	_, err = client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies)).Patch(f.ctx, policy, types.MergePatchType,
		[]byte(`{"status": {"conditions": [`+condition+`]}}`), metav1.PatchOptions{}, "status")
	f.ok(err)
}
