package serving

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"curfew.dev/curfew/test/harness"
)

// suite is what all tests share.
var suite struct {
	cluster  *harness.Cluster
	clientCA string // a file: CAs of the certificate that the API server shows
	servers  tls.Certificate
	stranger tls.Certificate // by the same CA, for another name
	full     bool
}

// apiServerName is in the client certificate that the API server shows to webhooks.
const apiServerName = "kube-apiserver"

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "serving:", err)
		code = 3 // not that of a failed test, see test/run
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	suite.full = os.Getenv("FULL") != ""
	root, err := harness.Root()
	if err != nil {
		return 0, err
	}
	files, err := os.MkdirTemp("", "curfew-serving-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(files)
	configuration, err := writeAdmission(files)
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(root, ".e2e-serving")
	if err := harness.StopCluster(ctx, dir); err != nil {
		return 0, err
	}
	defer func() {
		if stopErr := harness.StopCluster(context.Background(), dir); err == nil {
			err = stopErr
		}
	}()
	suite.cluster, err = harness.StartCluster(ctx, harness.ClusterOptions{
		Dir: dir, Out: os.Stderr, Arguments: []string{"kube-apiserver=--admission-control-config-file=" + configuration},
	})
	if err != nil {
		return 0, err
	}
	suite.cluster.Patient, suite.cluster.FailClosed = true, true
	return m.Run(), nil
}

// writeAdmission writes a CA and a client certificate into a folder, and what tells the API server
// to show it to webhooks.
func writeAdmission(dir string) (configuration string, err error) {
	ca, err := makeCertificate("client-ca", nil)
	if err != nil {
		return "", err
	}
	server, err := makeCertificate(apiServerName, ca)
	if err != nil {
		return "", err
	}
	stranger, err := makeCertificate("system:anonymous", ca)
	if err != nil {
		return "", err
	}
	suite.servers, suite.stranger = server.tls(), stranger.tls()
	path := func(name string) string { return filepath.Join(dir, name) }
	suite.clientCA, configuration = path("ca.crt"), path("admission.yaml")
	kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\nusers:\n- name: '*'\n  user: {client-certificate: %s, client-key: %s}\n", path("client.crt"), path("client.key"))
	plugins := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, name := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		plugins += fmt.Sprintf("- name: %s\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %s}\n", name, path("kubeconfig"))
	}
	for name, content := range map[string][]byte{
		"ca.crt": ca.pem, "client.crt": server.pem, "client.key": server.keyPEM, "kubeconfig": []byte(kubeconfig), "admission.yaml": []byte(plugins),
	} {
		if err := os.WriteFile(path(name), content, 0o600); err != nil {
			return "", err
		}
	}
	return configuration, nil
}

type certificate struct {
	key         crypto.Signer
	der         []byte
	pem, keyPEM []byte
}

func (c *certificate) tls() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{c.der}, PrivateKey: c.key}
}

// makeCertificate makes a client certificate, or a CA where there is none yet.
func makeCertificate(name string, ca *certificate) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true}
	parent, signer := template, crypto.Signer(key)
	if ca == nil {
		template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	} else {
		if parent, err = x509.ParseCertificate(ca.der); err != nil {
			return nil, err
		}
		signer = ca.key
	}
	out := &certificate{key: key}
	if out.der, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	out.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: out.der})
	out.keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return out, err
}
