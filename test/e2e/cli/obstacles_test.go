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
