package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// leaf is the serving certificate of this replica. Its key never leaves the process.
type leaf struct {
	certificate *tls.Certificate
	issuer      *x509.Certificate
	renew       time.Time
}

// needed says why a replica that serves l has to issue a certificate at now, or returns "".
// A CA that some webhook configuration lacks signs only where nothing else can be served.
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
