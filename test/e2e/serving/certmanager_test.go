package serving

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/test/harness"
)

// renewEvery is how old a certificate gets here before cert-manager renews it.
const renewEvery = 10 * time.Second

// cert-manager's own controllers issue and renew the certificate of
// manifests/components/cert-manager, its cainjector has the API server trust it, and the webhooks,
// which may neither read Secrets nor change a configuration, serve each renewed one without a
// failed call.
func TestCertManager(t *testing.T) {
	if !suite.full {
		t.Skip("FULL is not set: it builds cert-manager")
	}
	cluster := suite.cluster
	balancer, err := harness.NewBalancer(lag)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &fixture{T: t, balancer: balancer, args: append(secure(), "--certificates=cert-manager", "--certificate-dir", dir)}
	t.Cleanup(func() { f.ok(balancer.Close()) })
	f.ok(cluster.InstallCRDs(t.Context(), harness.CertManager))
	f.ok(cluster.Install(t.Context(), balancer.Port()))
	f.useCertManager()

	mounting, stop := context.WithCancel(context.Background())
	mounted := make(chan error, 1)
	go func() { mounted <- cluster.Mount(mounting, certs.DefaultSecretName, dir) }()
	t.Cleanup(func() { stop(); f.ok(<-mounted) })
	manager, err := cluster.StartCertManager(t.Context(), os.Stderr)
	f.ok(err)
	t.Cleanup(func() { f.ok(manager.Kill()) })
	f.await("cert-manager to issue the certificate", func(context.Context) (bool, error) {
		select {
		case <-manager.Ended():
			return false, fmt.Errorf("cert-manager ended: %w\n%s", manager.Err(), harness.Tail(manager.Log, 20))
		default:
		}
		_, err := os.Stat(filepath.Join(dir, "tls.crt"))
		return err == nil, nil
	})

	f.start("a")
	f.start("b")
	t.Cleanup(func() {
		for _, webhook := range f.webhooks {
			f.stop(webhook)
		}
	})
	f.ok(cluster.WaitForWebhook(t.Context()))
	f.newNamespace()
	f.startController()
	f.onlyTheAPIServer()

	before := f.generations()
	load := f.startLoad()
	served := f.served()
	for renewal := range 4 {
		f.await("the next certificate to be served by all", func(context.Context) (bool, error) {
			now := f.served()
			for i := range now {
				if bytes.Equal(now[i], served[i]) {
					return false, nil
				}
			}
			served = now
			return true, nil
		})
		t.Logf("note: renewal %d after %s", renewal+1, time.Since(load.begun).Round(time.Millisecond))
	}
	load.end(f, 0)
	if after := f.generations(); after != before {
		t.Errorf("the configurations changed from generation %v to %v: two writers fight over the CA bundle", before, after)
	}
}

// useCertManager does what the component does to the base, with a certificate that is renewed every
// few seconds.
func (f *fixture) useCertManager() {
	f.Helper()
	root, err := harness.Root()
	f.ok(err)
	text, err := os.ReadFile(filepath.Join(root, "manifests", "components", "cert-manager", "certificates.yaml"))
	f.ok(err)
	short := strings.NewReplacer("duration: 2160h # 90 days", "duration: 1h", "renewBefore: 720h", "renewBefore: "+(time.Hour-renewEvery).String()).Replace(string(text))
	if short == string(text) {
		f.Fatal("certificates.yaml has other durations")
	}
	f.kubectl(short, "apply", "-f", "-")
	configurations := []string{"mutatingwebhookconfiguration/curfew", "validatingwebhookconfiguration/curfew"}
	const key = "cert-manager.io/inject-ca-from"
	annotate := append([]string{"annotate", "--overwrite"}, configurations...)
	f.kubectl("", append(slices.Clone(annotate), key+"="+harness.Namespace+"/curfew-webhook")...)
	f.Cleanup(func() { f.kubectl("", append(slices.Clone(annotate), key+"-")...) })
	f.kubectl("", "delete", "role,rolebinding", "curfew-webhook-certificates", "-n", harness.Namespace)
	f.kubectl("", "delete", "secret", certs.DefaultSecretName, "-n", harness.Namespace, "--ignore-not-found")
	f.kubectl("", "patch", "clusterrole", "curfew-webhook-certificates", "--type=json", "-p", `[{"op":"replace","path":"/rules/0/verbs","value":["get"]}]`)
}

func (f *fixture) kubectl(input string, args ...string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Context()), harness.Patience)
	defer cancel()
	if _, stderr, err := suite.cluster.KubectlInput(ctx, input, args...); err != nil {
		f.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr)
	}
}

// served are the certificates that the webhooks present.
func (f *fixture) served() (out [][]byte) {
	f.Helper()
	for _, webhook := range f.webhooks {
		out = append(out, f.presented(webhook))
	}
	return out
}

// generations are the generations of the webhook configurations, which count changes of their
// webhooks.
func (f *fixture) generations() (out [4]int64) {
	f.Helper()
	client := suite.cluster.Client.AdmissionregistrationV1()
	for i, name := range []string{certs.DefaultConfiguration, webhookconfig.Name} {
		// Without kinds of others there may be no second mutating one.
		if configuration, err := client.MutatingWebhookConfigurations().Get(f.Context(), name, metav1.GetOptions{}); err == nil {
			out[2*i] = configuration.Generation
		}
		validatingWebhookConfiguration, err := client.ValidatingWebhookConfigurations().Get(f.Context(), name, metav1.GetOptions{})
		f.ok(err)
		out[2*i+1] = validatingWebhookConfiguration.Generation
		for _, w := range validatingWebhookConfiguration.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				f.Errorf("webhook %s of %s has no CA bundle", w.Name, name)
			}
		}
	}
	return out
}
