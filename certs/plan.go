package certs

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wanted holds the lifetimes of certificates.
type wanted struct {
	caLifetime      time.Duration
	servingLifetime time.Duration
	settle          time.Duration
}

// observed holds the state of a replica outside the Secret. Every part may be missing.
type observed struct {
	last    *material         // the previous content of the Secret
	issuer  *x509.Certificate // of the certificate that the replica serves
	expires time.Time         // when that certificate ends
	trusted trust
}

// outcome is the decision of plan.
type outcome struct {
	material material
	data     map[string][]byte // of the Secret, with foreign keys kept
	reasons  []string          // why data differs from the Secret's; empty means it does not
	due      time.Time         // when to plan again
}

// plan decides which data the Secret needs at now. It reads no clock and writes nothing. Planning
// again on its own outcome changes nothing until due.
func (w wanted) plan(data map[string][]byte, seen observed, now time.Time) (outcome, error) {
	m, reasons := parse(data, now)
	out := outcome{data: data, reasons: reasons}
	rotate := false
	if len(reasons) > 0 {
		if seen.last != nil {
			m.restore(*seen.last, now)
			// Someone who deletes the Secret wants another CA. The old one stays while it takes over.
			rotate = len(data[keyCA])+len(data[keyCAKey])+len(data[keyBundle]) == 0
		}
		// Another replica may serve a certificate of a CA that this one does not know.
		for _, ca := range seen.trusted.cas() {
			m.keep(ca, time.Time{})
		}
		slices.SortStableFunc(m.retired, func(a, b retired) int { return b.certificate.NotBefore.Compare(a.certificate.NotBefore) })
	}
	m.keep(seen.issuer, seen.expires)
	if err := w.rotate(&m, &out, seen.trusted, rotate, now); err != nil {
		return outcome{}, err
	}
	w.retire(&m, &out, now)
	out.material = m
	if len(out.reasons) > 0 || !m.trustsOnly(data) {
		if len(out.reasons) == 0 {
			out.reasons = []string{"kept a CA that is still in use"}
		}
		var err error
		if out.data, err = m.encode(data); err != nil {
			return outcome{}, err
		}
	}
	out.due = w.due(m, seen.trusted, now)
	return out, nil
}

// restore fills in unreadable parts from the last readable ones.
func (m *material) restore(last material, now time.Time) {
	valid := func(a *authority) bool {
		return a != nil && !now.Before(a.certificate.NotBefore) && now.Before(a.certificate.NotAfter)
	}
	if m.signing == nil && valid(last.signing) {
		m.signing = last.signing
	}
	if m.next == nil && valid(last.next) && !m.trusts(last.next.certificate) {
		m.next = last.next
	}
	var others []retired
	for _, r := range slices.Concat(m.retired, last.retired, []retired{{certificate: last.certificate()}}) {
		same := func(o retired) bool { return o.certificate.Equal(r.certificate) }
		if r.certificate == nil || m.signing.is(r.certificate) || m.next.is(r.certificate) || slices.ContainsFunc(others, same) {
			continue
		}
		if i := slices.IndexFunc(last.retired, same); i >= 0 && r.until.IsZero() {
			r.until = last.retired[i].until
		}
		others = append(others, r)
	}
	m.retired = others
}

func (m material) certificate() *x509.Certificate {
	if m.signing == nil {
		return nil
	}
	return m.signing.certificate
}

// keep keeps a CA trusted while a replica serves a certificate of it, even if another writer
// removed it.
func (m *material) keep(issuer *x509.Certificate, until time.Time) {
	if issuer != nil && !m.trusts(issuer) {
		m.retired = append(m.retired, retired{issuer, until})
	}
}

// rotate makes a signing CA if there is none, and replaces it in time. The next CA signs only once
// every webhook trusts it, unless no other can.
func (w wanted) rotate(m *material, out *outcome, trusted trust, forced bool, now time.Time) (err error) {
	say := func(format string, args ...any) { out.reasons = append(out.reasons, fmt.Sprintf(format, args...)) }
	if m.signing == nil {
		if m.next != nil {
			say("the next CA signs, since no other can")
			m.signing, m.next = m.next, nil
			return nil
		}
		say("made a new CA")
		m.signing, err = newCA(now, w.caLifetime)
		return err
	}
	if m.next != nil {
		if since, ok := trusted.since(m.next.certificate); ok && !now.Before(since.Add(w.settle)) {
			say("the next CA signs, every webhook configuration has had it since %s", since.Format(time.RFC3339))
			m.retired = slices.Insert(m.retired, 0, retired{m.signing.certificate, w.lastLeaf(now)})
			m.signing, m.next = m.next, nil
		}
		return nil
	}
	t := renewal(m.signing.certificate)
	switch {
	case forced:
		say("made the next CA, since the Secret was emptied")
	case !now.Before(t):
		say("made the next CA, since the present one was due at %s", t.Format(time.RFC3339))
	default:
		return nil
	}
	m.next, err = newCA(now, w.caLifetime)
	return err
}

// lastLeaf returns the end of the last certificate of a CA that stops signing at now. A replica
// that has not noticed yet signs a little longer.
func (w wanted) lastLeaf(now time.Time) time.Time {
	return now.Add(w.servingLifetime + w.settle).Truncate(time.Second)
}

// retire drops CAs once no replica can serve a certificate of theirs.
func (w wanted) retire(m *material, out *outcome, now time.Time) {
	var kept []retired
	for _, r := range m.retired {
		if r.until.IsZero() && now.Before(r.certificate.NotAfter) {
			r.until = w.lastLeaf(now)
			out.reasons = append(out.reasons, fmt.Sprintf("CA %s signs no longer and is dropped at %s", serial(r.certificate),
				r.until.Format(time.RFC3339)))
		}
		if !now.Before(r.until) || !now.Before(r.certificate.NotAfter) {
			out.reasons = append(out.reasons, fmt.Sprintf("dropped CA %s, whose last certificate has ended", serial(r.certificate)))
			continue
		}
		kept = append(kept, r)
	}
	m.retired = kept
}

// trustsOnly reports whether the bundle in data is the one of the material.
func (m material) trustsOnly(data map[string][]byte) bool {
	bundle, err := certificates(data[keyBundle])
	return err == nil && len(bundle) == len(m.cas()) &&
		!slices.ContainsFunc(m.cas(), func(ca *x509.Certificate) bool { return !contains(bundle, ca) })
}

// due is the earliest instant at which plan would change something by itself.
func (w wanted) due(m material, trusted trust, now time.Time) time.Time {
	t := renewal(m.signing.certificate)
	if m.next != nil { // Already made. It waits until it is trusted.
		t = m.signing.certificate.NotAfter
		if since, ok := trusted.since(m.next.certificate); ok {
			t = earliest(t, since.Add(w.settle))
		} else {
			t = earliest(t, now.Add(w.settle))
		}
	}
	for _, r := range m.retired {
		t = earliest(earliest(t, r.until), r.certificate.NotAfter)
	}
	return t
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// trust says since when each CA has been in the bundle of every webhook, as far as this replica has
// seen. It is empty while a configuration cannot be read.
type trust struct {
	everywhere map[string]time.Time // by the CA's raw bytes
	noWebhooks bool                 // no webhook has to learn of a CA
}

// observe brings the trust up to date. A CA that has been taken out meanwhile starts again.
func (t trust) observe(configurations []client.Object, now time.Time) trust {
	bundles := bundlesOf(configurations)
	if len(bundles) == 0 {
		return trust{noWebhooks: true}
	}
	counts := map[string]int{}
	for _, bundle := range bundles {
		cas, _ := certificates(bundle) // An unreadable CA is not trusted.
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
	if t.noWebhooks {
		return ca.NotBefore.Add(backdate), true
	}
	instant, ok := t.everywhere[string(ca.Raw)]
	return instant, ok
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
