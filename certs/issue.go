package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"reflect"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// backdate is taken off a certificate's start, for API servers whose clock is a little behind ours.
const backdate = 5 * time.Minute

// The wanted certificates are written as cert-manager's CertificateSpec, like those that
// manifests/components/cert-manager has cert-manager issue, and a test compares both. The standard
// library makes them: cert-manager's own code for this would link an LDAP client and its logging
// into Curfew. Its types import gateway-api's types alone (test/house).

var privateKey = cmapi.CertificatePrivateKey{Algorithm: cmapi.ECDSAKeyAlgorithm, Size: 256}

func caSpec() cmapi.CertificateSpec {
	return cmapi.CertificateSpec{
		CommonName: "curfew-webhook-ca",
		IsCA:       true,
		Usages:     []cmapi.KeyUsage{cmapi.UsageCertSign, cmapi.UsageCRLSign, cmapi.UsageDigitalSignature},
		PrivateKey: &privateKey,
	}
}

func servingSpec(dnsNames []string, ips []net.IP) cmapi.CertificateSpec {
	spec := cmapi.CertificateSpec{
		CommonName: "curfew-webhook",
		DNSNames:   dnsNames,
		Usages:     []cmapi.KeyUsage{cmapi.UsageDigitalSignature, cmapi.UsageServerAuth},
		PrivateKey: &privateKey,
	}
	for _, ip := range ips {
		spec.IPAddresses = append(spec.IPAddresses, ip.String())
	}
	return spec
}

// sign makes a certificate with a new key, signed by ca, or by itself if ca is nil.
func sign(ca *authority, spec cmapi.CertificateSpec, now, end time.Time) (*x509.Certificate, crypto.Signer, error) {
	template, err := template(spec)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = now.Add(-backdate), end
	if ca == nil {
		ca = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

// keyUsages and extKeyUsages are the usages that specs of this package name.
var (
	keyUsages = map[cmapi.KeyUsage]x509.KeyUsage{
		cmapi.UsageCertSign:         x509.KeyUsageCertSign,
		cmapi.UsageCRLSign:          x509.KeyUsageCRLSign,
		cmapi.UsageDigitalSignature: x509.KeyUsageDigitalSignature,
	}
	extKeyUsages = map[cmapi.KeyUsage]x509.ExtKeyUsage{
		cmapi.UsageServerAuth: x509.ExtKeyUsageServerAuth,
		cmapi.UsageClientAuth: x509.ExtKeyUsageClientAuth,
	}
)

// template has what a spec says, and no times. Its random serial number, of 159 bits, is chosen
// when it is signed. A CA signs no other CA. A spec that asks for anything else is an error.
func template(spec cmapi.CertificateSpec) (*x509.Certificate, error) {
	if spec.PrivateKey == nil || *spec.PrivateKey != privateKey {
		return nil, fmt.Errorf("private key %+v is not supported", spec.PrivateKey)
	}
	if known := (cmapi.CertificateSpec{CommonName: spec.CommonName, IsCA: spec.IsCA, DNSNames: spec.DNSNames, IPAddresses: spec.IPAddresses,
		Usages: spec.Usages, PrivateKey: spec.PrivateKey}); !reflect.DeepEqual(spec, known) {
		return nil, fmt.Errorf("spec %+v has fields that are not supported", spec)
	}
	out := &x509.Certificate{
		Subject: pkix.Name{CommonName: spec.CommonName}, DNSNames: spec.DNSNames,
		BasicConstraintsValid: true, IsCA: spec.IsCA, MaxPathLenZero: spec.IsCA,
	}
	for _, text := range spec.IPAddresses {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, fmt.Errorf("%q is not an IP address", text)
		}
		out.IPAddresses = append(out.IPAddresses, ip)
	}
	for _, usage := range spec.Usages {
		extended, ok := extKeyUsages[usage]
		switch {
		case ok:
			out.ExtKeyUsage = append(out.ExtKeyUsage, extended)
		case keyUsages[usage] != 0:
			out.KeyUsage |= keyUsages[usage]
		default:
			return nil, fmt.Errorf("usage %q is not supported", usage)
		}
	}
	return out, nil
}
