package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
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
func (m material) bundle() []byte {
	var out []byte
	for _, ca := range m.cas() {
		out = append(out, encode(ca)...)
	}
	return out
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
	if _, err := certificates(certificate); err != nil {
		return nil, err
	}
	if len(key) == 0 {
		return nil, fmt.Errorf("its key: %w", errMissing)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("its key: %w", err)
	}
	ca := pair.Leaf
	signer, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok:
		return nil, fmt.Errorf("its key: %T cannot sign", pair.PrivateKey)
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
	out[keyBundle] = m.bundle()
	var err error
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
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	return encode(a.certificate), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func serial(ca *x509.Certificate) string { return ca.SerialNumber.Text(16) }

func contains(all []*x509.Certificate, ca *x509.Certificate) bool {
	return slices.ContainsFunc(all, ca.Equal)
}

func certificates(text []byte) ([]*x509.Certificate, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errMissing
	}
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		// API servers skip such a block, so that a CA in it would be trusted by Curfew alone.
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			return nil, fmt.Errorf("a PEM block of type %q, or with headers", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return all, nil
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
	signed, key, err := sign(ca, spec, now, earliest(now.Add(lifetime), ca.certificate.NotAfter))
	if err != nil {
		return nil, fmt.Errorf("making a serving certificate: %w", err)
	}
	return &leaf{
		certificate: &tls.Certificate{Certificate: [][]byte{signed.Raw}, PrivateKey: key, Leaf: signed},
		issuer:      ca.certificate, renew: renewal(signed),
	}, nil
}

// newCA makes a self-signed CA with a new key.
func newCA(now time.Time, lifetime time.Duration) (*authority, error) {
	ca, key, err := sign(nil, caSpec(), now, now.Add(lifetime))
	if err != nil {
		return nil, fmt.Errorf("making a CA certificate: %w", err)
	}
	return &authority{ca, key}, nil
}

// renewal is the instant from which a certificate is to be replaced: after two thirds of its life,
// to the second.
func renewal(cert *x509.Certificate) time.Time {
	return cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3).Truncate(time.Second)
}
