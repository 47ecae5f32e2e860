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
	return wanted{caLifetime: DefaultCALifetime, servingLifetime: DefaultServingLifetime, settle: DefaultSettle}
}

func mustPlan(t *testing.T, w wanted, data map[string][]byte, seen observed, now time.Time) outcome {
	t.Helper()
	out, err := w.plan(data, seen, now)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return out
}

// everywhere is what a replica knows that has seen CAs in every configuration since an instant.
func everywhere(since time.Time, cas ...*x509.Certificate) trust {
	out := trust{everywhere: map[string]time.Time{}}
	for _, ca := range cas {
		out.everywhere[string(ca.Raw)] = since
	}
	return out
}

// trusts reports whether a client that trusts bundle would accept the certificate under name at
// now.
func trusts(bundle []byte, serving *x509.Certificate, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := serving.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func issue(t *testing.T, ca *authority, now time.Time) *x509.Certificate {
	t.Helper()
	names := append(ServiceDNSNames("curfew-webhook", "curfew-system"), "localhost")
	l, err := newLeaf(ca, servingSpec(names, []net.IP{loopback}), now, DefaultServingLifetime)
	must(t, err)
	return l.certificate.Leaf
}

func TestPlanFromNothing(t *testing.T) {
	out := mustPlan(t, testWanted(), nil, observed{}, epoch)
	serving := issue(t, out.material.signing, epoch)
	for _, name := range []string{"curfew-webhook.curfew-system.svc", "curfew-webhook.curfew-system", "curfew-webhook", "localhost", "127.0.0.1"} {
		if err := trusts(out.data[keyBundle], serving, name, epoch); err != nil {
			t.Errorf("a client that dials %q refuses the certificate: %v", name, err)
		}
	}
	if err := trusts(out.data[keyBundle], serving, "elsewhere.svc", epoch); err == nil {
		t.Error("the certificate is valid for a name that was not asked for")
	}
	ca := out.material.signing.certificate
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
	if early, late := epoch.Add(DefaultCALifetime*6/10), epoch.Add(DefaultCALifetime*7/10); out.due.Before(early) || out.due.After(late) {
		t.Errorf("due %s, want about two thirds of the CA's life", out.due)
	}
	if old := issue(t, out.material.signing, ca.NotAfter.Add(-time.Hour)); old.NotAfter.After(ca.NotAfter) {
		t.Errorf("the serving certificate ends %s, after its CA", old.NotAfter)
	}
}

func TestPlanIsStableUntilDue(t *testing.T) {
	w := testWanted()
	first := mustPlan(t, w, nil, observed{}, epoch)
	for name, now := range map[string]time.Time{"same instant": epoch, "a second before due": first.due.Add(-time.Second)} {
		again := mustPlan(t, w, first.data, observed{}, now)
		if len(again.reasons) != 0 || !again.due.Equal(first.due) {
			t.Errorf("%s: reasons %q, due %s; want none and %s", name, again.reasons, again.due, first.due)
		}
	}
	if outcome := mustPlan(t, w, first.data, observed{}, first.due); len(outcome.reasons) == 0 {
		t.Error("nothing happened at the due time")
	}
}

// What cannot be used is replaced, and everything else stays. With memory nothing is lost.
func TestPlanRepairs(t *testing.T) {
	w := testWanted()
	first := mustPlan(t, w, nil, observed{}, epoch)
	good, other := first.data, mustPlan(t, w, nil, observed{}, epoch).data
	garbage := []byte("-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n")
	gone := map[string][]byte{keyCA: nil, keyCAKey: nil, keyBundle: nil}

	tests := map[string]struct {
		change  map[string][]byte
		now     time.Time
		memory  bool
		reasons []string
		keepsCA bool // the former CA is still trusted
		newCA   bool // another CA signs
		next    bool // another CA is about to
	}{
		"untouched":                {keepsCA: true},
		"CA is garbage":            {change: map[string][]byte{keyCA: garbage}, keepsCA: true, newCA: true, reasons: []string{"tls.crt: ", "made a new CA", "signs no longer"}},
		"the same, remembered":     {change: map[string][]byte{keyCA: garbage}, memory: true, keepsCA: true, reasons: []string{"tls.crt: "}},
		"key is garbage":           {change: map[string][]byte{keyCAKey: garbage}, keepsCA: true, newCA: true, reasons: []string{"its key: ", "made a new CA"}},
		"key is gone, remembered":  {change: map[string][]byte{keyCAKey: nil}, memory: true, keepsCA: true, reasons: []string{"its key: missing"}},
		"key of another CA":        {change: map[string][]byte{keyCAKey: other[keyCAKey]}, keepsCA: true, newCA: true, reasons: []string{"its key: tls: private key does not match public key"}},
		"bundle is garbage":        {change: map[string][]byte{keyBundle: garbage}, keepsCA: true, reasons: []string{"ca.crt: "}},
		"bundle of another CA":     {change: map[string][]byte{keyBundle: other[keyBundle]}, keepsCA: true, reasons: []string{"ca.crt: lacks the CA that signs"}},
		"next is garbage":          {change: map[string][]byte{keyNext: garbage}, keepsCA: true, reasons: []string{"next.crt: "}},
		"retirements are garbage":  {change: map[string][]byte{keyRetired: []byte("{")}, keepsCA: true, reasons: []string{"retired.json: "}},
		"no CA remembered":         {change: gone, newCA: true, reasons: []string{"tls.crt: missing", "ca.crt: missing", "made a new CA"}},
		"deleted, remembered":      {change: gone, memory: true, keepsCA: true, next: true, reasons: []string{"made the next CA, since the Secret was emptied"}},
		"everything expired":       {now: epoch.Add(DefaultCALifetime), newCA: true, reasons: []string{"the CA expired at", "made a new CA", "dropped CA"}},
		"a CA from the future":     {now: epoch.Add(-time.Hour), keepsCA: true, newCA: true, reasons: []string{"the CA is not valid before", "made a new CA"}},
		"expired while remembered": {now: epoch.Add(DefaultCALifetime), memory: true, newCA: true, reasons: []string{"the CA expired at", "made a new CA"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			data, now := maps.Clone(good), tc.now
			data["notes"] = []byte("not ours")
			maps.Copy(data, tc.change)
			if now.IsZero() {
				now = epoch.Add(time.Minute)
			}
			seen := observed{}
			if tc.memory {
				seen.last = &first.material
			}
			out := mustPlan(t, w, data, seen, now)
			got := strings.Join(out.reasons, "\n")
			if (got == "") != (tc.reasons == nil) {
				t.Errorf("reasons %q", out.reasons)
			}
			for _, want := range tc.reasons {
				if !strings.Contains(got, want) {
					t.Errorf("reasons %q do not say %q", out.reasons, want)
				}
			}
			if got := bytes.Contains(out.data[keyBundle], good[keyCA]); got != tc.keepsCA {
				t.Errorf("former CA trusted: %v, want %v", got, tc.keepsCA)
			}
			if got := !bytes.Equal(out.data[keyCA], good[keyCA]); got != tc.newCA {
				t.Errorf("another CA signs: %v, want %v", got, tc.newCA)
			}
			if got := out.material.next != nil; got != tc.next {
				t.Errorf("there is a next CA: %v, want %v", got, tc.next)
			}
			if err := trusts(out.data[keyBundle], issue(t, out.material.signing, now), "localhost", now); err != nil {
				t.Errorf("handshake would fail: %v", err)
			}
			if string(out.data["notes"]) != "not ours" {
				t.Error("a foreign key of the Secret is gone")
			}
			if again := mustPlan(t, w, out.data, seen, now); len(again.reasons) != 0 {
				t.Errorf("not stable: %q", again.reasons)
			}
		})
	}
}

// A new CA signs only once every configuration has had it for a while, and the old one is trusted
// until its last certificate has ended.
func TestRotation(t *testing.T) {
	w := testWanted()
	first := mustPlan(t, w, nil, observed{}, epoch)
	now := first.due
	made := mustPlan(t, w, first.data, observed{}, now)
	if !made.material.signing.is(first.material.signing.certificate) || made.material.next == nil || !bytes.HasSuffix(made.data[keyBundle], first.data[keyBundle]) {
		t.Fatalf("after %q the old CA does not sign, or the bundle does not hold both", made.reasons)
	}
	next := made.material.next.certificate
	old := made.material.signing.certificate
	for name, seen := range map[string]trust{
		"no configuration could be read":   {},
		"one of them lacks it":             everywhere(now, old),
		"it was everywhere too short ago":  everywhere(now.Add(10*time.Minute-w.settle+time.Second), old, next),
		"it is there and was taken out":    everywhere(now.Add(10*time.Minute), old, next),
		"only others have been everywhere": everywhere(now.Add(-time.Hour), old),
	} {
		if out := mustPlan(t, w, made.data, observed{trusted: seen}, now.Add(10*time.Minute)); len(out.reasons) > 0 || !out.material.signing.is(old) {
			t.Errorf("%s: the plan writes for reasons %q, want the old CA to go on signing", name, out.reasons)
		}
	}
	seen := observed{trusted: everywhere(now, old, next)}
	if due := mustPlan(t, w, made.data, seen, now).due; !due.Equal(now.Add(w.settle)) {
		t.Errorf("due %s, want when it has settled", due)
	}
	now = now.Add(w.settle)
	signs := mustPlan(t, w, made.data, seen, now)
	if !signs.material.signing.is(next) || signs.material.next != nil || !signs.material.trusts(old) {
		t.Fatalf("after %q the next CA does not sign, or the old one is not trusted", signs.reasons)
	}
	last := issue(t, made.material.signing, now.Add(-time.Second))
	if early := mustPlan(t, w, signs.data, seen, last.NotAfter); len(early.reasons) > 0 {
		t.Errorf("when its last certificate ends: %q", early.reasons)
	}
	dropped := mustPlan(t, w, signs.data, seen, last.NotAfter.Add(w.settle+time.Second))
	if dropped.material.trusts(old) || !signs.due.Equal(w.lastLeaf(now)) {
		t.Errorf("the old CA is still trusted after its last certificate, due was %s", signs.due)
	}
	if out := mustPlan(t, w, made.data, observed{}, old.NotAfter); !out.material.signing.is(next) {
		t.Errorf("the old CA has expired, and the next does not sign: %q", out.reasons)
	}
}

// Whoever takes a CA out, it stays trusted while a replica serves a certificate of it.
func TestServedCAStays(t *testing.T) {
	w := testWanted()
	mine, theirs := mustPlan(t, w, nil, observed{}, epoch), mustPlan(t, w, nil, observed{}, epoch)
	until := epoch.Add(time.Hour)
	seen := observed{last: &mine.material, issuer: mine.material.signing.certificate, expires: until}
	out := mustPlan(t, w, theirs.data, seen, epoch)
	if !out.material.trusts(mine.material.signing.certificate) || len(out.reasons) == 0 {
		t.Errorf("it is not in the bundle, by %q", out.reasons)
	}
	if again := mustPlan(t, w, out.data, seen, epoch); len(again.reasons) > 0 {
		t.Errorf("not stable: %q", again.reasons)
	}
	if later := mustPlan(t, w, out.data, observed{}, until); later.material.trusts(mine.material.signing.certificate) {
		t.Error("it is trusted for longer")
	}
}

// A replica serves a certificate of another CA only when that is everywhere, or when it has no
// other.
func TestLeafIsNeeded(t *testing.T) {
	now := epoch.Add(time.Hour)
	a, two := mustPlan(t, testWanted(), nil, observed{}, epoch).material.signing, mustPlan(t, testWanted(), nil, observed{}, epoch).material.signing
	served, err := newLeaf(a, servingSpec([]string{"localhost"}, nil), epoch, DefaultServingLifetime)
	must(t, err)
	for name, tc := range map[string]struct {
		leaf    *leaf
		signing *authority
		trusted trust
		at      time.Time
		want    bool
	}{
		"none":                                  {nil, a, trust{}, now, true},
		"fresh":                                 {served, a, trust{}, now, false},
		"due":                                   {served, a, trust{}, served.renew, true},
		"another CA that is not everywhere":     {served, two, everywhere(now, a.certificate), now, false},
		"another CA that is everywhere":         {served, two, everywhere(now, a.certificate, two.certificate), now, true},
		"due by a CA that is not everywhere":    {served, two, trust{}, served.renew, false},
		"ended, by a CA that is not everywhere": {served, two, trust{}, served.certificate.Leaf.NotAfter, true},
		"from the future":                       {served, a, trust{}, epoch.Add(-time.Hour), true},
	} {
		if got := tc.leaf.needed(tc.signing.certificate, tc.trusted, tc.at); (got != "") != tc.want {
			t.Errorf("%s: %q, want needed: %v", name, got, tc.want)
		}
	}
}
