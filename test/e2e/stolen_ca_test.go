package e2e

import (
	"bytes"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/test/harness"
)

// TestStolenCA takes the steps of docs/security.md after the CA's key was stolen: nothing trusts the
// old CA any more, although a controller that remembers it runs all the time.
func TestStolenCA(t *testing.T) {
	s := newSpace(t)
	secrets := suite.cluster.Client.CoreV1().Secrets(harness.Namespace)
	secret, err := secrets.Get(s.ctx, certs.DefaultSecretName, metav1.GetOptions{})
	s.ok(err)
	stolen := bytes.TrimSpace(secret.Data[corev1.TLSCertKey])
	s.poll("all webhooks to trust the CA", func(ctx context.Context) (bool, error) {
		all, trusting := bundles(ctx, s, stolen)
		return all > 0 && trusting == all, nil
	})

	port := suite.webhook.WebhookPort
	s.ok(suite.webhook.Stop(s.ctx))
	s.expectSuccess(s.kubectl("delete", "secret", certs.DefaultSecretName, "--namespace", harness.Namespace))
	s.expectSuccess(s.kubectl("delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "curfew", "curfew-kinds", "--ignore-not-found"))
	s.ok(suite.cluster.Install(s.ctx, port))
	s.ok(startWebhook(s.ctx, port))

	s.poll("all webhooks to trust another CA alone", func(ctx context.Context) (bool, error) {
		secret, err := secrets.Get(ctx, certs.DefaultSecretName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		all, trusting := bundles(ctx, s, bytes.TrimSpace(secret.Data[corev1.TLSCertKey]))
		_, old := bundles(ctx, s, stolen)
		return all > 0 && trusting == all && old == 0, nil
	})
}

// bundles counts the webhooks of Curfew's four configurations, and those that trust a CA; none where
// one of the four is missing.
func bundles(ctx context.Context, s *space, authority []byte) (all, trusting int) {
	s.Helper()
	client := suite.cluster.Client.AdmissionregistrationV1()
	count := func(bundle []byte) {
		all++
		if bytes.Contains(bundle, authority) {
			trusting++
		}
	}
	for _, name := range []string{"curfew", kindsName} {
		mutating, err := client.MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, 0
		}
		validating, err := client.ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, 0
		}
		for i := range mutating.Webhooks {
			count(mutating.Webhooks[i].ClientConfig.CABundle)
		}
		for i := range validating.Webhooks {
			count(validating.Webhooks[i].ClientConfig.CABundle)
		}
	}
	return all, trusting
}
