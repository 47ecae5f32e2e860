package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/builders"
)

// cert-manager issues the same certificates that Curfew issues itself: for the same names and
// usages, with the same kind of key.
func TestComponentAsksForTheSameCertificates(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "manifests", "components", "cert-manager", "certificates.yaml"))
	must(t, err)
	names := append(ServiceDNSNames("curfew-webhook", "curfew-system"), "localhost")
	want := map[string]cmapi.CertificateSpec{"curfew-webhook-ca": caSpec(), "curfew-webhook": servingSpec(names, []net.IP{loopback, net.IPv6loopback})}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var got cmapi.Certificate
		must(t, yaml.Unmarshal([]byte(document), &got))
		spec, ok := want[got.Name]
		if got.Kind != cmapi.CertificateKind || !ok {
			continue
		}
		delete(want, got.Name)
		if got.Spec.CommonName != spec.CommonName || got.Spec.IsCA != spec.IsCA || !slices.Equal(got.Spec.DNSNames, spec.DNSNames) ||
			!slices.Equal(got.Spec.IPAddresses, spec.IPAddresses) {
			t.Errorf("%s: common name %q, CA %t, names %q %q; Curfew's own has %q, %t, %q %q", got.Name, got.Spec.CommonName, got.Spec.IsCA,
				got.Spec.DNSNames, got.Spec.IPAddresses, spec.CommonName, spec.IsCA, spec.DNSNames, spec.IPAddresses)
		}
		// cert-manager gives a CA its usages.
		if !spec.IsCA && !reflect.DeepEqual(got.Spec.Usages, spec.Usages) {
			t.Errorf("%s: usages %q; Curfew's own has %q", got.Name, got.Spec.Usages, spec.Usages)
		}
		if key := got.Spec.PrivateKey; key == nil || key.Algorithm != spec.PrivateKey.Algorithm || key.Size != spec.PrivateKey.Size {
			t.Errorf("%s: key %+v; Curfew's own is %+v", got.Name, key, spec.PrivateKey)
		}
	}
	if len(want) > 0 {
		t.Errorf("the component lacks Certificates %v", want)
	}
}

// A spec that cannot be kept is an error, not another certificate.
func TestUnknownSpecs(t *testing.T) {
	for want, change := range map[string]func(*cmapi.CertificateSpec){
		`"localhost" is not an IP address`:      func(s *cmapi.CertificateSpec) { s.IPAddresses = []string{"localhost"} },
		`usage "code signing" is not supported`: func(s *cmapi.CertificateSpec) { s.Usages = append(s.Usages, cmapi.UsageCodeSigning) },
		"private key <nil> is not supported":    func(s *cmapi.CertificateSpec) { s.PrivateKey = nil },
		"private key &{RotationPolicy: Encoding: Algorithm:RSA Size:2048} is not supported": func(s *cmapi.CertificateSpec) {
			s.PrivateKey = &cmapi.CertificatePrivateKey{Algorithm: cmapi.RSAKeyAlgorithm, Size: 2048}
		},
		"has fields that are not supported":  func(s *cmapi.CertificateSpec) { s.URIs = []string{"spiffe://curfew"} },
		" has fields that are not supported": func(s *cmapi.CertificateSpec) { s.Duration = &metav1.Duration{Duration: time.Hour} },
	} {
		spec := servingSpec([]string{"curfew-webhook"}, nil)
		change(&spec)
		if _, err := template(spec); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestIssued: certificates have the extensions of their specs and no others, serial numbers of at
// least 128 random bits, and times that allow for clocks that differ.
func TestIssued(t *testing.T) {
	end := epoch.Add(time.Hour)
	ca, err := newCA(epoch, time.Hour)
	must(t, err)
	serving, _, err := sign(ca, servingSpec([]string{"curfew-webhook"}, []net.IP{loopback}), epoch, end)
	must(t, err)
	for name, test := range map[string]struct {
		got      *x509.Certificate
		usage    x509.KeyUsage
		extended []x509.ExtKeyUsage
		names    []string
		ips      int
	}{
		"CA":      {got: ca.certificate, usage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature},
		"serving": {serving, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{"curfew-webhook"}, 1},
	} {
		got, isCA := test.got, name == "CA"
		if got.KeyUsage != test.usage || !slices.Equal(got.ExtKeyUsage, test.extended) || len(got.UnknownExtKeyUsage) > 0 {
			t.Errorf("%s: usages %b %v, want %b %v", name, got.KeyUsage, got.ExtKeyUsage, test.usage, test.extended)
		}
		if !slices.Equal(got.DNSNames, test.names) || len(got.IPAddresses) != test.ips || len(got.URIs)+len(got.EmailAddresses) > 0 {
			t.Errorf("%s: names %q %v", name, got.DNSNames, got.IPAddresses)
		}
		if !got.BasicConstraintsValid || got.IsCA != isCA || got.MaxPathLenZero != isCA {
			t.Errorf("%s: CA %t, path length zero %t, want both %t", name, got.IsCA, got.MaxPathLenZero, isCA)
		}
		if !got.NotBefore.Equal(epoch.Add(-backdate)) || !got.NotAfter.Equal(end) {
			t.Errorf("%s: valid from %s to %s, want from %s before %s to %s", name, got.NotBefore, got.NotAfter, backdate, epoch, end)
		}
		if key, ok := got.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() || got.SignatureAlgorithm != x509.ECDSAWithSHA256 {
			t.Errorf("%s: key %T, signed with %s, want ECDSA on P-256 with SHA-256", name, got.PublicKey, got.SignatureAlgorithm)
		}
	}
	// Of 100 random numbers with 159 bits one has more than 140, or something is wrong.
	seen, bits := map[string]bool{}, 0
	for range 100 {
		made, _, err := sign(ca, servingSpec(nil, nil), epoch, end)
		must(t, err)
		seen[serial(made)], bits = true, max(bits, made.SerialNumber.BitLen())
	}
	if len(seen) < 100 || bits <= 140 || bits > 159 {
		t.Errorf("100 certificates have %d serial numbers of up to %d bits", len(seen), bits)
	}
}

// TestBlocksOfOtherTypes: a CA in a block that API servers skip is not taken to be trusted.
func TestBlocksOfOtherTypes(t *testing.T) {
	ca := mustCA(t, epoch).certificate
	for name, block := range map[string]*pem.Block{
		"another type": {Type: "TRUSTED CERTIFICATE", Bytes: ca.Raw},
		"headers":      {Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: ca.Raw},
	} {
		text := slices.Concat(encode(ca), pem.EncodeToMemory(block))
		if all, err := certificates(text); err == nil {
			t.Errorf("%s: read %d certificates", name, len(all))
		}
	}
}

var must = builders.Must
