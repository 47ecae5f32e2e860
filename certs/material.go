package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. cert-manager uses the first three in a Secret for a CA.
const (
	keyCA      = corev1.TLSCertKey
	keyCAKey   = corev1.TLSPrivateKeyKey
	keyBundle  = "ca.crt"
	keyNext    = "next.crt"
	keyNextKey = "next.key"
	keyRetired = "retired.json" // by serial number, until when a CA that signs no longer is trusted
)

var errMissing = errors.New("missing")

// authority is a CA that can sign.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func (a *authority) is(ca *x509.Certificate) bool { return a != nil && a.certificate.Equal(ca) }

// retired is a CA that signs no longer. Replicas may still serve certificates of it until then.
type retired struct {
	certificate *x509.Certificate
	until       time.Time // zero: not known yet
}

// material is the content of the Secret. Every part may be missing: an unusable part is dropped.
type material struct {
	signing *authority // signs the serving certificates
	next    *authority // in the bundle, signs once every webhook configuration has it
	retired []retired  // newest first
}

// cas are all CAs to trust, newest first.
func (m material) cas() []*x509.Certificate {
	var out []*x509.Certificate
	for _, a := range []*authority{m.next, m.signing} {
		if a != nil {
			out = append(out, a.certificate)
		}
	}
	for _, r := range m.retired {
		out = append(out, r.certificate)
	}
	return out
}

func (m material) trusts(ca *x509.Certificate) bool {
	return contains(m.cas(), ca)
}

// bundle returns the CAs as PEM, for the webhook configurations.
func (m material) bundle() ([]byte, error) {
	var out bytes.Buffer
	for _, ca := range m.cas() {
		pem, err := pki.EncodeX509(ca)
		if err != nil {
			return nil, fmt.Errorf("encoding the CA bundle: %w", err)
		}
		out.Write(pem)
	}
	return out.Bytes(), nil
}

// parse reads the parts that are usable at now, and reports why the others are not. Each part
// stands alone: an unreadable key must not cost the CA its place in the bundle.
func parse(data map[string][]byte, now time.Time) (m material, problems []string) {
	problem := func(key string, err error) { problems = append(problems, fmt.Sprintf("%s: %v", key, err)) }
	var err error
	if m.signing, err = parseAuthority(data[keyCA], data[keyCAKey], now); err != nil {
		problem(keyCA, err)
	}
	if len(data[keyNext])+len(data[keyNextKey]) > 0 {
		if m.next, err = parseAuthority(data[keyNext], data[keyNextKey], now); err != nil {
			problem(keyNext, err)
		}
	}
	until := map[string]time.Time{}
	if text := data[keyRetired]; len(text) > 0 {
		if err := json.Unmarshal(text, &until); err != nil {
			problem(keyRetired, err)
			until = nil
		}
	}
	bundle, err := certificates(data[keyBundle])
	if err != nil {
		problem(keyBundle, err)
	}
	for _, ca := range bundle {
		switch {
		case m.trusts(ca):
		case !ca.IsCA:
			problem(keyBundle, fmt.Errorf("%q is not a CA", ca.Subject.CommonName))
		default:
			m.retired = append(m.retired, retired{ca, until[serial(ca)]})
		}
	}
	for _, ca := range m.cas() {
		if err == nil && !contains(bundle, ca) {
			problem(keyBundle, errors.New("lacks the CA that signs, or the next"))
		}
	}
	return m, problems
}

func parseAuthority(certificate, key []byte, now time.Time) (*authority, error) {
	all, err := certificates(certificate)
	if err != nil {
		return nil, err
	}
	signer, err := privateKey(key)
	if err != nil {
		return nil, fmt.Errorf("its key: %w", err)
	}
	ca := all[0]
	switch ok, err := pki.PublicKeyMatchesCertificate(signer.Public(), ca); {
	case err != nil:
		return nil, fmt.Errorf("its key: %w", err)
	case !ok:
		return nil, errors.New("its key is that of another certificate")
	case !ca.IsCA:
		return nil, fmt.Errorf("%q is not a CA", ca.Subject.CommonName)
	case now.Before(ca.NotBefore):
		return nil, fmt.Errorf("the CA is not valid before %s", ca.NotBefore.Format(time.RFC3339))
	case !now.Before(ca.NotAfter):
		return nil, fmt.Errorf("the CA expired at %s", ca.NotAfter.Format(time.RFC3339))
	}
	return &authority{ca, signer}, nil
}

// encode writes the material into a copy of data. Foreign keys stay.
func (m material) encode(data map[string][]byte) (map[string][]byte, error) {
	out := make(map[string][]byte, len(data)+6)
	maps.Copy(out, data)
	delete(out, keyNext)
	delete(out, keyNextKey)
	delete(out, keyRetired)
	var err error
	if out[keyBundle], err = m.bundle(); err != nil {
		return nil, err
	}
	if out[keyCA], out[keyCAKey], err = m.signing.encode(); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", keyCA, err)
	}
	if m.next != nil {
		if out[keyNext], out[keyNextKey], err = m.next.encode(); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", keyNext, err)
		}
	}
	until := map[string]time.Time{}
	for _, r := range m.retired {
		until[serial(r.certificate)] = r.until
	}
	if len(until) > 0 {
		if out[keyRetired], err = json.Marshal(until); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", keyRetired, err)
		}
	}
	return out, nil
}

func (a *authority) encode() (certificate, key []byte, err error) {
	if certificate, err = pki.EncodeX509(a.certificate); err != nil {
		return nil, nil, err
	}
	key, err = pki.EncodePrivateKey(a.key, cmapi.PKCS8)
	return certificate, key, err
}

func serial(ca *x509.Certificate) string { return ca.SerialNumber.Text(16) }

func contains(all []*x509.Certificate, ca *x509.Certificate) bool {
	return slices.ContainsFunc(all, ca.Equal)
}

func certificates(pem []byte) ([]*x509.Certificate, error) {
	if len(bytes.TrimSpace(pem)) == 0 {
		return nil, errMissing
	}
	return pki.DecodeX509CertificateSetBytes(pem)
}

func privateKey(pem []byte) (crypto.Signer, error) {
	if len(pem) == 0 {
		return nil, errMissing
	}
	return pki.DecodePrivateKeyBytes(pem)
}

// leaf is the serving certificate of this replica. Its key never leaves the process.
type leaf struct {
	certificate *tls.Certificate
	issuer      *x509.Certificate
	renew       time.Time
}

// needed says why a replica that serves l has to issue a certificate at now, or returns "". A CA
// that a webhook configuration lacks signs only if no other certificate can be served.
func (l *leaf) needed(signing *x509.Certificate, trusted trust, now time.Time) string {
	if l == nil {
		return "the first"
	}
	if !now.Before(l.certificate.Leaf.NotAfter) || now.Before(l.certificate.Leaf.NotBefore) {
		return "the last one is not valid"
	}
	_, everywhere := trusted.since(signing)
	switch {
	case !l.issuer.Equal(signing) && everywhere:
		return "another CA signs"
	case l.issuer.Equal(signing) && !now.Before(l.renew):
		return fmt.Sprintf("the last one was due at %s", l.renew.Format(time.RFC3339))
	}
	return ""
}

// newLeaf issues a serving certificate with a new key. It never outlives its CA.
func newLeaf(ca *authority, spec cmapi.CertificateSpec, now time.Time, lifetime time.Duration) (*leaf, error) {
	signed, key, err := newServing(ca, spec, now, lifetime)
	if err != nil {
		return nil, err
	}
	renew, err := renewal(signed)
	if err != nil {
		return nil, err
	}
	return &leaf{
		certificate: &tls.Certificate{Certificate: [][]byte{signed.Raw}, PrivateKey: key, Leaf: signed},
		issuer:      ca.certificate, renew: renew,
	}, nil
}

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
