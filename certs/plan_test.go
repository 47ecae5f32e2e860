package certs

import (
	"bytes"
	"crypto/x509"
	"maps"
	"net"
	"strings"
	"testing"
	"time"
)

var (
	epoch    = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	loopback = net.IPv4(127, 0, 0, 1)
)

func testWanted() wanted {
	return wanted{
		dnsNames:        append(ServiceDNSNames("curfew-webhook", "curfew-system"), "localhost"),
		ips:             []net.IP{loopback},
		caLifetime:      DefaultCALifetime,
		servingLifetime: DefaultServingLifetime,
	}
}

func mustPlan(t *testing.T, w wanted, data map[string][]byte, now time.Time) outcome {
	t.Helper()
	out, err := w.plan(data, now)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return out
}

// trusts reports whether a client that trusts bundle would accept the certificate under name at now.
func trusts(bundle, serving []byte, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	certs, err := certificates(serving)
	if err != nil {
		return err
	}
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestPlanFromNothing(t *testing.T) {
	w := testWanted()
	out := mustPlan(t, w, nil, epoch)
	for _, name := range []string{"curfew-webhook.curfew-system.svc", "curfew-webhook.curfew-system", "curfew-webhook", "localhost", "127.0.0.1"} {
		if err := trusts(out.data[keyBundle], out.data[keyServing], name, epoch); err != nil {
			t.Errorf("a client that dials %q refuses the certificate: %v", name, err)
		}
	}
	if err := trusts(out.data[keyBundle], out.data[keyServing], "elsewhere.svc", epoch); err == nil {
		t.Error("the certificate is valid for a name nobody asked for")
	}

	ca, serving := out.material.cas[0], out.material.serving[0]
	if !ca.IsCA || ca.KeyUsage&x509.KeyUsageCertSign == 0 {
		t.Errorf("the CA cannot sign: isCA=%v usage=%b", ca.IsCA, ca.KeyUsage)
	}
	if serving.IsCA || serving.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("the serving certificate can sign")
	}
	if got, want := serving.NotAfter, epoch.Add(DefaultServingLifetime); !got.Equal(want) {
		t.Errorf("serving certificate ends %s, want %s by the injected clock", got, want)
	}
	if got, want := ca.NotBefore, epoch.Add(-backdate); !got.Equal(want) {
		t.Errorf("CA begins %s, want %s by the injected clock", got, want)
	}
	if early, late := epoch.Add(DefaultServingLifetime*6/10), epoch.Add(DefaultServingLifetime*7/10); out.due.Before(early) || out.due.After(late) {
		t.Errorf("due %s, want about two thirds of the serving certificate's life", out.due)
	}
}

func TestPlanIsStableUntilDue(t *testing.T) {
	w := testWanted()
	first := mustPlan(t, w, nil, epoch)
	for name, now := range map[string]time.Time{"same instant": epoch, "a second before due": first.due.Add(-time.Second)} {
		again := mustPlan(t, w, first.data, now)
		if len(again.reasons) != 0 || !again.due.Equal(first.due) {
			t.Errorf("%s: reasons %q, due %s; want none and %s", name, again.reasons, again.due, first.due)
		}
	}
	if at := mustPlan(t, w, first.data, first.due); len(at.reasons) == 0 {
		t.Error("nothing happened at the due time")
	}
}

func TestPlanRepairs(t *testing.T) {
	w := testWanted()
	good := mustPlan(t, w, nil, epoch).data
	other := mustPlan(t, w, nil, epoch).data
	garbage := []byte("-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n")

	tests := map[string]struct {
		change   map[string][]byte
		now      time.Time
		reasons  []string
		keepsCA  bool // the former bundle's CA is still trusted
		newCA    bool
		newPair  bool
		servedBy map[string][]byte // whose bundle must trust the outcome's serving certificate, beside its own
	}{
		"untouched": {keepsCA: true},
		"serving certificate is garbage": {
			change: map[string][]byte{keyServing: garbage}, keepsCA: true, newPair: true,
			reasons: []string{"tls.crt: ", "issued a serving certificate"}, servedBy: good,
		},
		"serving certificate is gone": {
			change: map[string][]byte{keyServing: nil}, keepsCA: true, newPair: true,
			reasons: []string{"tls.crt: missing", "issued a serving certificate"}, servedBy: good,
		},
		"serving key is garbage": {
			change: map[string][]byte{keyServingKey: []byte("x")}, keepsCA: true, newPair: true,
			reasons: []string{"tls.key: ", "issued a serving certificate"}, servedBy: good,
		},
		"serving key belongs to another certificate": {
			change: map[string][]byte{keyServingKey: other[keyServingKey]}, keepsCA: true, newPair: true,
			reasons: []string{"tls.key: is not the key of tls.crt", "issued a serving certificate"}, servedBy: good,
		},
		"serving pair of another CA": {
			change: map[string][]byte{keyServingKey: other[keyServingKey], keyServing: other[keyServing]}, keepsCA: true, newPair: true,
			reasons: []string{"tls.crt: x509: certificate signed by unknown authority", "issued a serving certificate"}, servedBy: good,
		},
		"CA key is garbage: the working pair and its CA stay": {
			change: map[string][]byte{keyCAKey: garbage}, keepsCA: true, newCA: true,
			reasons: []string{"ca.key: ", "made a new CA"}, servedBy: good,
		},
		"CA key belongs to another CA": {
			change: map[string][]byte{keyCAKey: other[keyCAKey]}, keepsCA: true, newCA: true,
			reasons: []string{"ca.key: is not the key of the first certificate in ca.crt", "made a new CA"}, servedBy: good,
		},
		"bundle is garbage": {
			change: map[string][]byte{keyBundle: garbage}, newCA: true, newPair: true,
			reasons: []string{"ca.crt: ", "made a new CA", "issued a serving certificate"},
		},
		"bundle holds what is no CA": {
			change: map[string][]byte{keyBundle: other[keyServing]}, newCA: true, newPair: true,
			reasons: []string{`ca.crt: "curfew-webhook" is not a CA`, "made a new CA", "issued a serving certificate"},
		},
		"serving certificate expired while Curfew was down": {
			now: epoch.Add(DefaultServingLifetime + time.Second), keepsCA: true, newPair: true,
			reasons: []string{"tls.crt: x509: certificate has expired", "issued a serving certificate"}, servedBy: good,
		},
		"everything expired": {
			now: epoch.Add(DefaultCALifetime), newCA: true, newPair: true,
			reasons: []string{"ca.crt: a CA expired at", "made a new CA", "issued a serving certificate"},
		},
		"a CA from the future": {
			now: epoch.Add(-time.Hour), keepsCA: true, newCA: true, newPair: true,
			reasons: []string{"the CA is not valid before", "made a new CA", "issued a serving certificate"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			data, now := maps.Clone(good), tc.now
			data["notes"] = []byte("not ours")
			maps.Copy(data, tc.change)
			if now.IsZero() {
				now = epoch.Add(time.Minute)
			}
			out := mustPlan(t, w, data, now)

			if got := strings.Join(out.reasons, "\n"); (got == "") != (tc.reasons == nil) {
				t.Errorf("reasons %q", out.reasons)
			} else {
				for _, want := range tc.reasons {
					if !strings.Contains(got, want) {
						t.Errorf("reasons %q do not say %q", out.reasons, want)
					}
				}
			}
			if got := bytes.Contains(out.data[keyBundle], good[keyBundle]); got != tc.keepsCA {
				t.Errorf("former CA trusted: %v, want %v", got, tc.keepsCA)
			}
			if got := !bytes.Equal(out.data[keyCAKey], good[keyCAKey]); got != tc.newCA {
				t.Errorf("new CA: %v, want %v", got, tc.newCA)
			}
			if got := !bytes.Equal(out.data[keyServing], good[keyServing]); got != tc.newPair {
				t.Errorf("new serving certificate: %v, want %v", got, tc.newPair)
			}
			for _, bundle := range []map[string][]byte{out.data, tc.servedBy} {
				if bundle == nil {
					continue
				}
				if err := trusts(bundle[keyBundle], out.data[keyServing], "localhost", now); err != nil {
					t.Errorf("handshake would fail: %v", err)
				}
			}
			if string(out.data["notes"]) != "not ours" {
				t.Error("a foreign key of the Secret is gone")
			}
			if again := mustPlan(t, w, out.data, now); len(again.reasons) != 0 {
				t.Errorf("not stable: %q", again.reasons)
			}
		})
	}
}

// TestRotationNeverCutsOff plays ten years of due times. An API server that still has the bundle of settle ago must accept
// what is served now, and one that has today's bundle must accept what a slow replica still serves.
func TestRotationNeverCutsOff(t *testing.T) {
	for name, lifetimes := range map[string][2]time.Duration{
		"defaults":                         {DefaultCALifetime, DefaultServingLifetime},
		"as long as the CA":                {DefaultCALifetime, DefaultCALifetime},
		"short CA, serving due beside it":  {6 * time.Hour, 4 * time.Hour},
		"the shortest that options accept": {3 * (backdate + settle), 3 * (backdate + settle)},
	} {
		t.Run(name, func(t *testing.T) {
			w := testWanted()
			w.caLifetime, w.servingLifetime = lifetimes[0], lifetimes[1]
			type state struct {
				since time.Time
				data  map[string][]byte
			}
			now := epoch
			history := []state{{now, mustPlan(t, w, nil, now).data}}
			rotations, renewals := 0, 0
			for range 40 {
				last := history[len(history)-1]
				due := mustPlan(t, w, last.data, now).due
				if !due.After(now) {
					t.Fatalf("due %s is not after %s: a busy loop", due, now)
				}
				now = due
				out := mustPlan(t, w, last.data, now)
				if len(out.reasons) == 0 {
					t.Fatalf("nothing happened at due time %s", now)
				}
				if !bytes.Equal(out.data[keyServing], last.data[keyServing]) {
					renewals++
				}
				if !bytes.Equal(out.data[keyCAKey], last.data[keyCAKey]) {
					rotations++
				}
				// The bundle that a lagging API server has: the newest that is at least settle old.
				lagging := history[0]
				for _, s := range history {
					if now.Sub(s.since) >= settle {
						lagging = s
					}
				}
				if err := trusts(lagging.data[keyBundle], out.data[keyServing], "localhost", now); err != nil {
					t.Fatalf("at %s, after %q: an API server with the bundle of %s refuses: %v", now, out.reasons, lagging.since, err)
				}
				if err := trusts(out.data[keyBundle], last.data[keyServing], "localhost", now); err != nil {
					t.Fatalf("at %s, after %q: the certificate of a replica one step behind is refused: %v", now, out.reasons, err)
				}
				if n := len(out.material.cas); n > 3 {
					t.Fatalf("the bundle grew to %d CAs", n)
				}
				history = append(history, state{now, out.data})
			}
			if rotations < 2 || renewals < 2 {
				t.Errorf("%d CA rotations and %d renewals in 40 steps: the test does not test", rotations, renewals)
			}
		})
	}
}

func TestNamesAreAddedNotFoughtOver(t *testing.T) {
	service, local := testWanted(), testWanted()
	service.dnsNames, service.ips = []string{"curfew-webhook.curfew-system.svc"}, nil
	local.dnsNames = []string{"localhost"}

	data := mustPlan(t, service, nil, epoch).data
	both := mustPlan(t, local, data, epoch)
	if got := strings.Join(both.reasons, "\n"); !strings.Contains(got, "lacked localhost") {
		t.Errorf("reasons %q do not name the missing name", both.reasons)
	}
	for _, name := range []string{"curfew-webhook.curfew-system.svc", "localhost", "127.0.0.1"} {
		if err := trusts(data[keyBundle], both.data[keyServing], name, epoch); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if again := mustPlan(t, service, both.data, epoch); len(again.reasons) != 0 {
		t.Errorf("a replica with other names replaces the certificate again: %q", again.reasons)
	}
}
