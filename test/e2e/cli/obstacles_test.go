package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/policy/wellknown"
)

// explains waits until explain says something.
func explains(t *testing.T, object, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last answer
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		last = typed(t, line{text: "kubectl curfew explain " + object})
		return strings.Contains(last.stdout, want), nil
	})
	if err != nil {
		t.Fatalf("explain %s does not say %q:\n%s%s", object, want, last.stdout, last.stderr)
	}
}

const refusal = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: nothing-is-deleted}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [batch], apiVersions: [v1], operations: [DELETE], resources: [jobs]}]
  validations: [{expression: "!request.userInfo.username.endsWith(':curfew-controller')", message: not today}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: nothing-is-deleted}
spec:
  policyName: nothing-is-deleted
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: paused}}}
`

// TestBreakerIsExplained: the API server refuses what Curfew would delete by a namespace's default.
// After some of that Curfew pauses, and explain says so, until it goes on.
func TestBreakerIsExplained(t *testing.T) {
	w := laid(t)
	w.space(t, "paused", map[string]string{"curfew.dev/default-ttl": "1s"})
	if got := typed(t, line{text: "kubectl apply -f -", stdin: refusal}); got.code != 0 {
		t.Fatal(got.stderr)
	}
	probe := finishedJob("paused", "probe", time.Now().Add(-time.Minute), -1)
	probe.SetAnnotations(map[string]string{"curfew.dev/ttl-after-finished": "never"})
	w.job(t, probe)
	const try = "kubectl delete job probe -n paused --dry-run=server --as system:serviceaccount:x:curfew-controller --as-group system:masters"
	for deadline := time.Now().Add(patience); typed(t, line{text: try}).code == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the policy is not enforced")
		}
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, name := range names {
		w.job(t, finishedJob("paused", name, time.Now().Add(-time.Minute), -1))
	}
	explains(t, "job/a -n paused", `deletions are paused: Job of source "namespace/paused" in namespace "paused" (Refused)`)
	becomes(t, 0, map[string]string{"deletions": `warning deletions are paused: Job of source "namespace/paused" in namespace "paused" (Refused)`})
	got := kubectl(t, "curfew explain job/a -n paused")
	if !strings.Contains(got.stdout, "job.batch/a in namespace paused stays, although it was due") {
		t.Errorf("the answer:\n%s", got.stdout)
	}
	kubectl(t, "delete validatingadmissionpolicybinding,validatingadmissionpolicy nothing-is-deleted")
	for _, name := range names {
		w.gone(t, "jobs", "paused", name)
	}
}

// TestControllerSettingsAreExplained: the controller publishes the flags that it runs with, and
// explain reads them.
func TestControllerSettingsAreExplained(t *testing.T) {
	w := laid(t)
	if err := stop(suite.controller); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(suite.controller); err != nil {
			t.Error(err)
		}
		if err := startController(t.Context()); err != nil {
			t.Error(err)
		}
		published(t, "dry-run", "false")
	}()
	w.space(t, "reported", nil)
	w.space(t, "guarded", nil)
	w.job(t, finishedJob("reported", "due", time.Now().Add(-time.Hour), 60))
	w.configMap(t, "reported", "alias", map[string]string{wellknown.LabelKyvernoTTL: "2099-01-01"})
	w.configMap(t, "guarded", "kept", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	explains(t, "cm/alias -n reported", "configmap/alias in namespace reported stays: it has no TTL label")
	if err := startController(t.Context(), "--dry-run", "--kyverno-label", "--native-ttl", "off", "--protect=kube-system", "--protect=guarded"); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"dry-run": "true", "kyverno-label": "true", "native-ttl": "off", "protect": "kube-system,guarded", "namespace": "curfew-system",
		"user": "system:serviceaccount:curfew-system:curfew-controller", "kubeconfig": "",
	} {
		published(t, key, want)
	}
	explains(t, "job/due -n reported", "dry-run   the controller runs with --dry-run: it only reports due objects")
	explains(t, "cm/alias -n reported", wellknown.LabelKyvernoTTL+": 2099-01-01, which is 2099-01-01 00:00:00 UTC")
	explains(t, "cm/kept -n guarded", `namespace "guarded" is protected by the controller's --protect`)
	if got := typed(t, line{text: "kubectl curfew expire-now job/due -n reported"}); got.code != 1 || !strings.Contains(got.stderr, "would stay: the controller runs with --dry-run") {
		t.Errorf("exit status %d: %s", got.code, got.stderr)
	}
	kubectl(t, "delete configmap curfew-settings -n curfew-system")
	explains(t, "job/due -n reported", `not known: whether Curfew's controller runs with --dry-run, --enable, --protect or --kyverno-label: `+
		`there is no ConfigMap curfew-settings in namespace "curfew-system"; --curfew-namespace names another`)
}

// published waits until a setting of the controller has a value.
func published(t *testing.T, key, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	var last answer
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		last = typed(t, line{text: "kubectl get configmap curfew-settings -n curfew-system -o jsonpath={.data." + key + "}"})
		return last.code == 0 && last.stdout == want, nil
	})
	if err != nil {
		t.Fatalf("%s is published as %q, want %q: %s", key, last.stdout, want, last.stderr)
	}
}
