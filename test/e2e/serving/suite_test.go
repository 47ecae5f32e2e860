package serving

import (
	"context"
	"crypto"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/util/pki"

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
		code = 1
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
	spec := cmapi.CertificateSpec{CommonName: name, IsCA: ca == nil, Usages: []cmapi.KeyUsage{cmapi.UsageDigitalSignature, cmapi.UsageClientAuth},
		PrivateKey: &cmapi.CertificatePrivateKey{Algorithm: cmapi.ECDSAKeyAlgorithm, Size: pki.ECCurve256}}
	if ca == nil {
		spec.Usages = []cmapi.KeyUsage{cmapi.UsageCertSign}
	}
	request := &cmapi.Certificate{Spec: spec}
	key, err := pki.GeneratePrivateKeyForCertificate(request)
	if err != nil {
		return nil, err
	}
	template, err := pki.CertificateTemplateFromCertificate(request)
	if err != nil {
		return nil, err
	}
	template.PublicKey = key.Public()
	out := &certificate{key: key}
	parent, signer := template, key
	if ca != nil {
		if parent, err = pki.DecodeX509CertificateBytes(ca.pem); err != nil {
			return nil, err
		}
		signer = ca.key
	}
	signed, made, err := pki.SignCertificate(template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	out.pem, out.der = signed, made.Raw
	out.keyPEM, err = pki.EncodePrivateKey(key, cmapi.PKCS8)
	return out, err
}
