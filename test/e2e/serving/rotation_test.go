package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/test/harness"
)

// The CA rotates every few seconds, because the test deletes its Secret or damages it, and both
// replicas restart one after another. No call of the API server fails, by failurePolicy Fail.
func TestNoCallFails(t *testing.T) {
	f := newFixture(t, append(secure(), "--ca-settle", "1s")...)
	f.newNamespace()
	f.startController()
	f.onlyTheAPIServer()

	rotations, restarts := 3, 1
	if suite.full {
		rotations, restarts = 30, 6
	}
	load := f.startLoad()
	for i := range rotations {
		f.rotate(i%3 == 2)
	}
	t.Logf("note: %d rotations in %s", rotations, time.Since(load.begun).Round(time.Millisecond))
	for range restarts {
		for _, name := range []string{"a", "b"} {
			old := f.webhooks[0]
			f.start(name) // as a Deployment does with maxUnavailable: 0
			f.stop(old)
			f.webhooks = f.webhooks[1:]
		}
	}
	t.Logf("note: %d restarts of both replicas", restarts)
	load.end(f, 2*restarts)
}

// rotate deletes the CA's Secret and waits until another CA signs. With damage the Secret becomes
// unreadable meanwhile.
func (f *fixture) rotate(damage bool) {
	f.Helper()
	secrets := suite.cluster.Client.CoreV1().Secrets(harness.Namespace)
	ctx := f.Context()
	before, err := secrets.Get(ctx, certs.DefaultSecretName, metav1.GetOptions{})
	f.ok(err)
	f.ok(secrets.Delete(ctx, certs.DefaultSecretName, metav1.DeleteOptions{}))
	f.await("another CA to sign", func(ctx context.Context) (bool, error) {
		now, err := secrets.Get(ctx, certs.DefaultSecretName, metav1.GetOptions{})
		if err != nil {
			return false, nil // It is made again.
		}
		if damage {
			damage = false
			now.Data[corev1.TLSPrivateKeyKey] = []byte("x")
			_, err := secrets.Update(ctx, now, metav1.UpdateOptions{})
			return false, err
		}
		if !bytes.Equal(now.Data[corev1.TLSCertKey], before.Data[corev1.TLSCertKey]) {
			return true, nil
		}
		if now.Data["next.crt"] == nil {
			// A replica that had not heard of the rotation before has made the Secret again, and finished
			// that one.
			return false, client.IgnoreNotFound(secrets.Delete(ctx, certs.DefaultSecretName, metav1.DeleteOptions{}))
		}
		return false, nil
	})
}

// onlyTheAPIServer: webhooks answer only clients with the API server's certificate, and not by TLS
// 1.2.
func (f *fixture) onlyTheAPIServer() {
	f.Helper()
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		version      uint16
		want         string
	}{
		"the API server's":    {[]tls.Certificate{suite.servers}, tls.VersionTLS13, ""},
		"none":                {nil, tls.VersionTLS13, "certificate required"},
		"that of another":     {[]tls.Certificate{suite.stranger}, tls.VersionTLS13, "bad certificate"},
		"TLS 1.2 is not used": {[]tls.Certificate{suite.servers}, tls.VersionTLS12, "protocol version"},
	} {
		got := f.post(&tls.Config{InsecureSkipVerify: true, Certificates: c.certificates, MaxVersion: c.version})
		if (c.want == "") != (got == nil) || got != nil && !strings.Contains(got.Error(), c.want) {
			f.Errorf("certificate %s: %v, want %q", name, got, c.want)
		}
	}
}

func (f *fixture) post(config *tls.Config) error {
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: harness.Patience}).Post("https://127.0.0.1:"+strconv.Itoa(f.webhooks[0].WebhookPort)+"/validate", "application/json", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// presented is the certificate that a webhook shows in a handshake.
func (f *fixture) presented(curfew *harness.Curfew) []byte {
	f.Helper()
	conn, err := tls.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(curfew.WebhookPort), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{suite.servers}})
	f.ok(err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Raw
}
