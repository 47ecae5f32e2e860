package certs

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
)

// backdate is taken off a certificate's start, for API servers whose clock is a little behind ours.
const backdate = 5 * time.Minute

// The wanted certificates are written as cert-manager's CertificateSpec, and cert-manager's code
// makes them.

func caSpec() cmapi.CertificateSpec {
	return cmapi.CertificateSpec{
		CommonName: "curfew-webhook-ca",
		IsCA:       true,
		Usages:     []cmapi.KeyUsage{cmapi.UsageCertSign, cmapi.UsageCRLSign, cmapi.UsageDigitalSignature},
		PrivateKey: &cmapi.CertificatePrivateKey{Algorithm: cmapi.ECDSAKeyAlgorithm, Size: pki.ECCurve256},
	}
}

func servingSpec(dnsNames []string, ips []net.IP) cmapi.CertificateSpec {
	return cmapi.CertificateSpec{
		CommonName:  "curfew-webhook",
		DNSNames:    dnsNames,
		IPAddresses: pki.IPAddressesToString(ips),
		Usages:      []cmapi.KeyUsage{cmapi.UsageDigitalSignature, cmapi.UsageServerAuth},
		PrivateKey:  &cmapi.CertificatePrivateKey{Algorithm: cmapi.ECDSAKeyAlgorithm, Size: pki.ECCurve256},
	}
}

// newCA makes a self-signed CA with a new key.
func newCA(now time.Time, lifetime time.Duration) (*authority, error) {
	template, key, err := template(caSpec(), now, now.Add(lifetime))
	if err != nil {
		return nil, fmt.Errorf("preparing a CA certificate: %w", err)
	}
	_, ca, err := pki.SignCertificate(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing a CA certificate: %w", err)
	}
	return &authority{ca, key}, nil
}

// newServing makes a serving certificate with a new key. It never outlives its CA.
func newServing(ca *authority, spec cmapi.CertificateSpec, now time.Time, lifetime time.Duration) (*x509.Certificate, crypto.Signer,
	error) {
	template, key, err := template(spec, now, earliest(now.Add(lifetime), ca.certificate.NotAfter))
	if err != nil {
		return nil, nil, fmt.Errorf("preparing a serving certificate: %w", err)
	}
	_, serving, err := pki.SignCertificate(template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a serving certificate: %w", err)
	}
	return serving, key, nil
}

func template(spec cmapi.CertificateSpec, now, end time.Time) (*x509.Certificate, crypto.Signer, error) {
	crt := &cmapi.Certificate{Spec: spec}
	key, err := pki.GeneratePrivateKeyForCertificate(crt)
	if err != nil {
		return nil, nil, err
	}
	template, err := pki.CertificateTemplateFromCertificate(crt)
	if err != nil {
		return nil, nil, err
	}
	// cert-manager reads the real clock for these two. Ours is the injected one.
	template.NotBefore, template.NotAfter = now.Add(-backdate), end
	template.PublicKey = key.Public()
	return template, key, nil
}

// renewal is the instant from which a certificate is to be replaced: after two thirds of its life,
// to the second.
func renewal(cert *x509.Certificate) (time.Time, error) {
	at, err := pki.RenewalTime(cert.NotBefore, cert.NotAfter, nil, nil, nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("computing the renewal time of %q: %w", cert.Subject.CommonName, err)
	}
	return at.Time, nil
}
