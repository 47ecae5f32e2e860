package health

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// secretName is the Secret with the CA that replicas issue their certificates by or, from
// cert-manager, the serving certificate, as package certs names it.
const secretName = "curfew-webhook-tls"

// certificate checks the CA bundle of every webhook and the serving certificate.
func (r *reader) certificate() (State, string) {
	roots, without, webhooks := []*x509.Certificate(nil), 0, 0
	for _, one := range r.configurations {
		for i := range one.webhooks {
			webhooks++
			bundle := parseCertificates(one.webhooks[i].ClientConfig.CABundle)
			if bundle = slices.DeleteFunc(bundle, func(ca *x509.Certificate) bool { return !r.Now.Before(ca.NotAfter) }); len(bundle) == 0 {
				without++
			}
			roots = append(roots, bundle...)
		}
	}
	if without > 0 {
		return Failed, fmt.Sprintf("%d of %d webhooks have no CA that is valid: the API server does not call them", without, webhooks)
	}
	at := corev1.SchemeGroupVersion.WithResource("secrets")
	secret, presence, err := world.Read[corev1.Secret](r.ctx, r.w, at, r.w.Controller.Namespace, secretName)
	switch {
	case err != nil:
		return Unknown, err.Error()
	case presence == world.Missing && r.w.Controller.State == world.NotInstalled:
		return Failed, "there is none"
	case presence == world.Missing:
		return Failed, fmt.Sprintf("there is no Secret %s in namespace %q", secretName, r.w.Controller.Namespace)
	case presence == world.Unread && r.probe.Validates:
		return OK, "the API server accepts it; you may not get the Secret, which shows until when"
	case presence == world.Unread:
		r.note("you may not get secrets/%s in namespace %q: until when the certificate in it is valid is not known", secretName, r.w.Controller.Namespace)
		return Unknown, "not read"
	}
	return r.serving(parseCertificates(secret.Data[corev1.TLSCertKey]), roots, webhooks > 0)
}

// serving checks the serving certificate, the first of a chain, or its CA.
func (r *reader) serving(chain, roots []*x509.Certificate, known bool) (State, string) {
	if len(chain) == 0 {
		return Failed, "Secret " + secretName + " has no certificate"
	}
	leaf, until := chain[0], r.when(chain[0].NotAfter)
	pool := x509.NewCertPool()
	for _, ca := range roots {
		pool.AddCert(ca)
	}
	between := x509.NewCertPool()
	for _, one := range chain[1:] {
		between.AddCert(one)
	}
	what := "the serving certificate"
	if leaf.IsCA {
		what = "the webhook's CA"
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: r.Now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	left := leaf.NotAfter.Sub(r.Now)
	switch {
	case left <= 0:
		return Failed, what + " expired " + until + ": the API server does not call the webhook"
	case known && err != nil:
		return Failed, "the API server does not trust " + what + ": " + err.Error()
	case left < leaf.NotAfter.Sub(leaf.NotBefore)/6:
		// It is replaced after two thirds of its time.
		return Warning, what + " is valid until " + until + ", and should have been renewed by now"
	}
	return OK, fmt.Sprintf("%s is valid until %s, %d days from now", what, until, left/(24*time.Hour))
}

func parseCertificates(text []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return out
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, certificate)
		}
	}
}
