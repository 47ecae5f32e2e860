package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. The first three are those of a Secret that cert-manager issues.
const (
	keyServing    = corev1.TLSCertKey
	keyServingKey = corev1.TLSPrivateKeyKey
	keyBundle     = "ca.crt"
	keyCAKey      = "ca.key"
)

// material is the content of the Secret. Every part may be missing: what cannot be used is not
// kept.
type material struct {
	cas        []*x509.Certificate // the bundle; the first one signs, if caKey is there
	caKey      crypto.Signer
	serving    []*x509.Certificate // leaf first
	servingKey crypto.Signer
}

// parse reads what is usable at now and says what is not, and why. Each part stands alone: an
// unreadable CA key must not cost the serving certificate, which works without it.
func parse(data map[string][]byte, now time.Time) (material, []string) {
	var m material
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	if cas, err := certificates(data[keyBundle]); err != nil {
		problem("%s: %v", keyBundle, err)
	} else {
		for _, ca := range cas {
			switch {
			case !ca.IsCA:
				problem("%s: %q is not a CA", keyBundle, ca.Subject.CommonName)
			case !now.Before(ca.NotAfter):
				problem("%s: a CA expired at %s", keyBundle, ca.NotAfter.Format(time.RFC3339))
			default:
				m.cas = append(m.cas, ca)
			}
		}
	}

	if key, err := privateKey(data[keyCAKey]); err != nil {
		problem("%s: %v", keyCAKey, err)
	} else if len(m.cas) > 0 {
		switch ok, err := pki.PublicKeyMatchesCertificate(key.Public(), m.cas[0]); {
		case err != nil:
			problem("%s: %v", keyCAKey, err)
		case !ok:
			problem("%s: is not the key of the first certificate in %s", keyCAKey, keyBundle)
		case now.Before(m.cas[0].NotBefore):
			problem("%s: the CA is not valid before %s", keyBundle, m.cas[0].NotBefore.Format(time.RFC3339))
		default:
			m.caKey = key
		}
	}

	if serving, key, err := servingPair(data, m.cas, now); err != nil {
		problems = append(problems, err.Error())
	} else {
		m.serving, m.servingKey = serving, key
	}
	return m, problems
}

func servingPair(data map[string][]byte, cas []*x509.Certificate, now time.Time) ([]*x509.Certificate, crypto.Signer, error) {
	serving, err := certificates(data[keyServing])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyServing, err)
	}
	key, err := privateKey(data[keyServingKey])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyServingKey, err)
	}
	if ok, err := pki.PublicKeyMatchesCertificate(key.Public(), serving[0]); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyServingKey, err)
	} else if !ok {
		return nil, nil, fmt.Errorf("%s: is not the key of %s", keyServingKey, keyServing)
	}
	if _, err := serving[0].Verify(x509.VerifyOptions{
		Roots:         pool(cas),
		Intermediates: pool(serving[1:]),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyServing, err)
	}
	return serving, key, nil
}

// encode writes the material into a copy of data. Foreign keys stay.
func (m material) encode(data map[string][]byte) (map[string][]byte, error) {
	out := make(map[string][]byte, len(data)+4)
	for k, v := range data {
		out[k] = v
	}
	var err error
	if out[keyBundle], err = encodeAll(m.cas); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", keyBundle, err)
	}
	if out[keyServing], err = encodeAll(m.serving); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", keyServing, err)
	}
	if out[keyCAKey], err = pki.EncodePrivateKey(m.caKey, cmapi.PKCS8); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", keyCAKey, err)
	}
	if out[keyServingKey], err = pki.EncodePrivateKey(m.servingKey, cmapi.PKCS8); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", keyServingKey, err)
	}
	return out, nil
}

// tlsCertificate is what a handshake presents.
func (m material) tlsCertificate() *tls.Certificate {
	cert := &tls.Certificate{PrivateKey: m.servingKey, Leaf: m.serving[0]}
	for _, c := range m.serving {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert
}

func certificates(pem []byte) ([]*x509.Certificate, error) {
	if len(pem) == 0 {
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

func encodeAll(certs []*x509.Certificate) ([]byte, error) {
	var out bytes.Buffer
	for _, c := range certs {
		pem, err := pki.EncodeX509(c)
		if err != nil {
			return nil, err
		}
		out.Write(pem)
	}
	return out.Bytes(), nil
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}
