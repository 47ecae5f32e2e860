package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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

// TestBreakerIsExplained: the API server refuses what Curfew would delete by a namespace's default. After some of that Curfew pauses, and
// explain says so, until it goes on.
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
	got := kubectl(t, "curfew explain job/a -n paused")
	if !strings.Contains(got.stdout, "job.batch/a in namespace paused stays, although it was due") {
		t.Errorf("the answer:\n%s", got.stdout)
	}
	kubectl(t, "delete validatingadmissionpolicybinding,validatingadmissionpolicy nothing-is-deleted")
	for _, name := range names {
		w.gone(t, "jobs", "paused", name)
	}
}

// TestControllerDryRunIsExplained: what the controller was started with is read from its Deployment.
func TestControllerDryRunIsExplained(t *testing.T) {
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
	}()
	if err := startController(t.Context(), "--dry-run"); err != nil {
		t.Fatal(err)
	}
	const add = `'[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--dry-run"}]'`
	kubectl(t, "patch deployment curfew-controller -n curfew-system --type json -p "+add)
	defer kubectl(t, "apply -f ../../../../manifests/deploy/controller.yaml")
	w.space(t, "reported", nil)
	w.job(t, finishedJob("reported", "due", time.Now().Add(-time.Hour), 60))
	explains(t, "job/due -n reported", "dry-run   the controller runs with --dry-run: what is due is only reported")
	if got := typed(t, line{text: "kubectl curfew expire-now job/due -n reported"}); got.code != 1 || !strings.Contains(got.stderr, "would stay: the controller runs with --dry-run") {
		t.Errorf("exit status %d: %s", got.code, got.stderr)
	}
	kubectl(t, "delete deployment curfew-controller -n curfew-system")
	explains(t, "job/due -n reported", `not known: whether Curfew's controller runs with --dry-run, protects further namespaces, or runs at all: `+
		`there is no Deployment of it in namespace "curfew-system"; --curfew-namespace names another`)
}
