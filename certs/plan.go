package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// settle is how long a new CA stands in the bundle before it signs: time for every replica to
// inject it and for every API server's informer to see it.
const settle = 10 * time.Minute

var errMissing = errors.New("missing")

// wanted says what the certificates have to be.
type wanted struct {
	dnsNames        []string
	ips             []net.IP
	caLifetime      time.Duration
	servingLifetime time.Duration
}

// outcome is what plan decided.
type outcome struct {
	material material
	data     map[string][]byte // of the Secret, with foreign keys kept
	reasons  []string          // why data differs from what was there; empty means it does not
	due      time.Time         // when to plan again
}

// plan decides what the Secret's data has to be at now. It reads no clock and writes nothing.
// Planning again on its own outcome changes nothing until due.
func (w wanted) plan(data map[string][]byte, now time.Time) (outcome, error) {
	m, reasons := parse(data, now)

	caReason, err := w.renewCA(&m, now)
	if err != nil {
		return outcome{}, err
	}
	servingReason, err := w.renewServing(&m, now)
	if err != nil {
		return outcome{}, err
	}
	for _, reason := range []string{caReason, servingReason} {
		if reason != "" {
			reasons = append(reasons, reason)
		}
	}

	out := outcome{material: m, data: data, reasons: reasons}
	if len(reasons) > 0 {
		if out.data, err = m.encode(data); err != nil {
			return outcome{}, err
		}
	}
	out.due, err = m.due()
	return out, err
}

// renewCA puts a new CA before the others where the present one cannot sign or is due. The old ones
// stay trusted.
func (w wanted) renewCA(m *material, now time.Time) (string, error) {
	reason := "made a new CA"
	if m.caKey != nil {
		at, err := renewal(m.cas[0])
		if err != nil || now.Before(at) {
			return "", err
		}
		reason = fmt.Sprintf("rotated the CA, which was due at %s", at.Format(time.RFC3339))
	}
	ca, key, err := newCA(now, w.caLifetime)
	if err != nil {
		return "", err
	}
	m.cas, m.caKey = append([]*x509.Certificate{ca}, m.cas...), key
	return reason, nil
}

// renewServing issues a serving certificate where there is none that works, where it lacks a name,
// or where it is due.
func (w wanted) renewServing(m *material, now time.Time) (string, error) {
	dnsNames, ips := w.dnsNames, w.ips
	var reason string
	switch {
	case m.serving == nil:
		reason = "issued a serving certificate"
	case w.missing(m.serving[0]) != "":
		reason = fmt.Sprintf("issued a serving certificate, the last one lacked %s", w.missing(m.serving[0]))
		// Keep the names of the last one: during a rollout that changes the names, replicas that each
		// insisted on their own would replace each other's certificate without end.
		dnsNames, ips = union(m.serving[0], dnsNames, ips)
	default:
		at, err := m.servingDue()
		if err != nil || now.Before(at) {
			return "", err
		}
		reason = fmt.Sprintf("renewed the serving certificate, which was due at %s", at.Format(time.RFC3339))
	}
	var err error
	m.serving, m.servingKey, err = newServing(m.cas[0], m.caKey, servingSpec(dnsNames, ips), now, w.servingLifetime)
	return reason, err
}

// missing names what the certificate should cover and does not, or returns "".
func (w wanted) missing(cert *x509.Certificate) string {
	for _, name := range w.dnsNames {
		if cert.VerifyHostname(name) != nil {
			return name
		}
	}
	for _, ip := range w.ips {
		if cert.VerifyHostname(ip.String()) != nil {
			return ip.String()
		}
	}
	return ""
}

func union(cert *x509.Certificate, dnsNames []string, ips []net.IP) ([]string, []net.IP) {
	dnsNames, ips = slices.Clone(dnsNames), slices.Clone(ips)
	for _, name := range cert.DNSNames {
		if !slices.Contains(dnsNames, name) {
			dnsNames = append(dnsNames, name)
		}
	}
	for _, ip := range cert.IPAddresses {
		if !slices.ContainsFunc(ips, ip.Equal) {
			ips = append(ips, ip)
		}
	}
	return dnsNames, ips
}

// servingDue is when the serving certificate is to be replaced: at its renewal time, but not before
// the CA that would sign the next one is known everywhere.
func (m material) servingDue() (time.Time, error) {
	at, err := renewal(m.serving[0])
	if err != nil {
		return time.Time{}, err
	}
	return latest(at, m.cas[0].NotBefore.Add(backdate+settle)), nil
}

// due is the earliest instant at which plan would change something.
func (m material) due() (time.Time, error) {
	at, err := m.servingDue()
	if err != nil {
		return time.Time{}, err
	}
	rotation, err := renewal(m.cas[0])
	if err != nil {
		return time.Time{}, err
	}
	if rotation.Before(at) {
		at = rotation
	}
	for _, cert := range slices.Concat(m.cas, m.serving[:1]) {
		if cert.NotAfter.Before(at) {
			at = cert.NotAfter
		}
	}
	return at, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
