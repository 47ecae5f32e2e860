package certs

import (
	"crypto/x509"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trust says since when each CA has been in the bundle of every webhook, as far as this replica has
// seen. It is empty while a configuration cannot be read.
type trust struct {
	everywhere map[string]time.Time // by the CA's raw bytes
	nobody     bool                 // there is no webhook, so that nobody has to be told
}

// observe brings the trust up to date. A CA that has been taken out meanwhile starts again.
func (t trust) observe(configurations []client.Object, now time.Time) trust {
	bundles := bundlesOf(configurations)
	if len(bundles) == 0 {
		return trust{nobody: true}
	}
	counts := map[string]int{}
	for _, bundle := range bundles {
		cas, _ := certificates(bundle) // What cannot be read is not trusted.
		once := map[string]bool{}
		for _, ca := range cas {
			if !once[string(ca.Raw)] {
				once[string(ca.Raw)] = true
				counts[string(ca.Raw)]++
			}
		}
	}
	out := trust{everywhere: map[string]time.Time{}}
	for ca, n := range counts {
		if n < len(bundles) {
			continue
		}
		out.everywhere[ca] = now
		if since, ok := t.everywhere[ca]; ok {
			out.everywhere[ca] = since
		}
	}
	return out
}

// cas are the CAs that every webhook trusts.
func (t trust) cas() []*x509.Certificate {
	var out []*x509.Certificate
	for raw := range t.everywhere {
		if ca, err := x509.ParseCertificate([]byte(raw)); err == nil && ca.IsCA {
			out = append(out, ca)
		}
	}
	return out
}

// since returns when the CA was first seen in every webhook, and false if it is not there.
func (t trust) since(ca *x509.Certificate) (time.Time, bool) {
	if t.nobody {
		return ca.NotBefore.Add(backdate), true
	}
	at, ok := t.everywhere[string(ca.Raw)]
	return at, ok
}

func bundlesOf(configurations []client.Object) [][]byte {
	var out [][]byte
	for _, obj := range configurations {
		for _, w := range webhooksOf(obj) {
			out = append(out, w.config.CABundle)
		}
	}
	return out
}

// webhook is an entry of a configuration of either kind.
type webhook struct {
	name   string
	config admissionv1.WebhookClientConfig
}

func webhooksOf(obj client.Object) []webhook {
	var out []webhook
	switch c := obj.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			out = append(out, webhook{w.Name, w.ClientConfig})
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			out = append(out, webhook{w.Name, w.ClientConfig})
		}
	}
	return out
}
