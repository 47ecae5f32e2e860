package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/test/harness"
)

// status is what kubectl curfew status says: state and message by check.
func status(t *testing.T, kubeconfig string) (checks map[string]string, got answer) {
	t.Helper()
	got = typed(t, line{text: "kubectl curfew status -o json", kubeconfig: kubeconfig})
	var read struct {
		Items []struct{ Name, State, Message string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &read); err != nil {
		t.Fatalf("%v:\n%s%s", err, got.stdout, got.stderr)
	}
	checks = map[string]string{}
	for _, each := range read.Items {
		checks[each.Name] = each.State + " " + each.Message
	}
	return checks, got
}

// becomes waits until status says something, with an exit status.
func becomes(t *testing.T, code int, want map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last answer
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		var checks map[string]string
		checks, last = status(t, "")
		for name, text := range want {
			if !strings.HasPrefix(checks[name], text) {
				return false, nil
			}
		}
		return last.code == code, nil
	})
	if err != nil {
		t.Fatalf("status does not say %q with exit status %d, but %d:\n%s%s", want, code, last.code, last.stdout, last.stderr)
	}
}

// sound is a healthy installation. The Deployment of the fixture does not run here, and the control
// plane has no TTL controller of its own. Curfew may not delete the labeled Service of the fixture.
var sound = map[string]string{
	"kinds":      "ok ",
	"controller": "warning ", "webhook": "ok the API server calls it", "certificate": "ok the webhook's CA is valid until ",
	"coverage": "ok ", "statuses": "ok ", "version": "ok kubectl-curfew ", "triggers": "ok on: ttl, label, ",
	"deletions": "ok ", "pauses": "ok nothing is paused", "permissions": "warning TTL labels have an effect on ", "cleanup": "ok no policy is stalled", "in-tree TTL": "ok off: ",
}

// TestStatus: a healthy installation, and then one without its webhook, whose certificate has
// expired, and that may not watch a kind.
func TestStatus(t *testing.T) {
	laid(t)
	becomes(t, 0, sound)
	if err := stop(suite.webhook); err != nil {
		t.Fatal(err)
	}
	becomes(t, 1, map[string]string{"webhook": "failed the API server does not reach it: objects are created without defaults and checks", "certificate": "ok "})
	secrets := suite.cluster.Client.CoreV1().Secrets(harness.Namespace)
	patch, err := json.Marshal(map[string]any{"data": map[string]any{"tls.crt": expired(t)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Patch(t.Context(), "curfew-webhook-tls", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes(t, 1, map[string]string{"certificate": "failed the serving certificate expired "})
	// The webhook renews it.
	if suite.webhook, err = suite.cluster.StartWebhook(t.Context(), harness.CurfewOptions{Port: suite.webhook.WebhookPort}); err != nil {
		t.Fatal(err)
	}
	becomes(t, 0, sound)

	if got := typed(t, line{text: "kubectl apply -f -", stdin: unpermitted}); got.code != 0 {
		t.Fatal(got.stderr)
	}
	becomes(t, 0, map[string]string{"permissions": "warning kinds with a profile are skipped: Walk.status.example.com (permission)"})
	kubectl(t, "delete crd walks.status.example.com")
	kubectl(t, "delete kindprofile walks")
	becomes(t, 0, sound)
	kubectl(t, "delete validatingwebhookconfiguration curfew")
	becomes(t, 1, map[string]string{"webhook": "failed there is no ValidatingWebhookConfiguration curfew: admission does nothing"})
	restartWebhook(t)
	becomes(t, 0, sound)
}

// restartWebhook installs what a test has removed, too.
func restartWebhook(t *testing.T) {
	t.Helper()
	err := stop(suite.webhook)
	if err == nil {
		suite.webhook, err = suite.cluster.StartWebhook(t.Context(), harness.CurfewOptions{Port: suite.webhook.WebhookPort})
	}
	if err == nil {
		err = suite.cluster.WaitForWebhook(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStatusForATenant: who may view one namespace learns that nothing of it is known, and never
// that it is fine.
func TestStatusForATenant(t *testing.T) {
	w := laid(t)
	w.space(t, "looks-on", nil)
	kubeconfig := developer(t, "looks-on")
	kubectl(t, "delete rolebinding dev -n looks-on")
	kubectl(t, "create rolebinding dev -n looks-on --clusterrole=view --serviceaccount=looks-on:dev")
	checks, got := status(t, kubeconfig)
	for name, text := range checks {
		if !strings.HasPrefix(text, "unknown ") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if got.code != 2 || len(checks) != len(sound) || !strings.Contains(got.stderr, "whether the controller and the webhook work is not known") {
		t.Errorf("exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// TestStatusForAMonitor: the roles that docs/reference-flags.md grants are all that it needs, but
// for the Secret, and for the Deployment and the EndpointSlices of the webhook, which are not here.
func TestStatusForAMonitor(t *testing.T) {
	w := laid(t)
	w.space(t, "monitors", nil)
	kubeconfig := developer(t, "monitors")
	page, err := os.ReadFile(filepath.Join(suite.root, "docs", "reference-flags.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^kubectl (create .* curfew-status .*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 {
		t.Fatalf("the page has %d commands", len(commands))
	}
	for _, command := range commands {
		kubectl(t, strings.Replace(command[1], "--group=monitors", "--serviceaccount=monitors:dev", 1))
	}
	want := maps.Clone(sound)
	want["webhook"], want["certificate"] = "unknown ", "unknown "
	want["permissions"] = "ok TTL labels have an effect on " // It may not list the Service.
	for deadline := time.Now().Add(patience); ; {
		checks, got := status(t, kubeconfig)
		as := got.code == 2
		for name, text := range want {
			as = as && strings.HasPrefix(checks[name], text)
		}
		if as {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
		}
	}
}

// TestStatusBesideTheInTreeController: kube-controller-manager runs its own TTL controller, for a
// moment.
func TestStatusBesideTheInTreeController(t *testing.T) {
	laid(t)
	const name = "ttl-after-finished-controller"
	becomes(t, 0, map[string]string{"in-tree TTL": "ok off: "})
	run := func(controllers string) {
		t.Helper()
		if err := suite.cluster.Restart(context.WithoutCancel(t.Context()), "kube-controller-manager", "--controllers="+controllers); err != nil {
			t.Fatal(err)
		}
	}
	run(strings.Replace(controllers, ",-"+name, "", 1))
	becomes(t, 0, map[string]string{"in-tree TTL": "ok on, by its ServiceAccount: it deletes Jobs by spec.ttlSecondsAfterFinished, too"})
	run(controllers)
	kubectl(t, "delete serviceaccount -n kube-system "+name)
	becomes(t, 0, sound)
}

// expired is a certificate that was valid until an hour ago.
func expired(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().AddDate(0, -3, 0), NotAfter: time.Now().Add(-time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// unpermitted is a kind with a profile that Curfew may not watch.
var unpermitted = fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: walks.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: walks, singular: walk, kind: Walk}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: curfew.dev/v1alpha1
kind: KindProfile
metadata: {name: walks}
spec:
  kind: {group: %[1]s, version: v1, kind: Walk, resource: walks}
  state:
    finished: object.?status.?phase.orValue("") == "Done"
    finishTime: object.?status.?doneAt.orValue(null)
    outcome: '"Succeeded"'
`, "status.example.com")
