package certs

import (
	"context"
	"crypto"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// mount writes a certificate of a CA as the kubelet does: a folder that a link is moved to.
func mount(t *testing.T, dir, version string, ca *authority) {
	t.Helper()
	l, err := newLeaf(ca, servingSpec([]string{"localhost"}, nil), time.Now(), time.Hour)
	must(t, err)
	certificate, key, err := (&authority{l.certificate.Leaf, l.certificate.PrivateKey.(crypto.Signer)}).encode()
	must(t, err)
	real := filepath.Join(dir, version)
	must(t, os.Mkdir(real, 0o700))
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": encode(ca.certificate)} {
		must(t, os.WriteFile(filepath.Join(real, name), content, 0o600))
	}
	next := filepath.Join(dir, "..next")
	must(t, os.Symlink(version, next))
	must(t, os.Rename(next, filepath.Join(dir, "..data")))
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
}

// A process that starts before its certificate exists waits, is ready once every webhook trusts it,
// and serves a renewed one without a restart. It changes no configuration.
func TestMounted(t *testing.T) {
	ca, err := newCA(time.Now(), DefaultCALifetime)
	must(t, err)
	dir := t.TempDir()
	c := fake.NewClientBuilder().WithObjects(mutating("curfew"), validating("curfew")).Build()
	clk := &movable{}
	m, err := NewMounted(MountedOptions{Dir: dir, Client: c, Clock: clk})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- m.Start(ctx) }()
	if _, err := m.GetCertificate(nil); err == nil || m.Ready() || m.CABundle() != nil {
		t.Error("it serves before there is a certificate")
	}

	mount(t, dir, "one", ca)
	until(t, "the certificate", func() bool { _, err := m.GetCertificate(nil); return err == nil })
	if err := m.check(t.Context()); err == nil || m.Ready() {
		t.Errorf("ready although no webhook trusts it: %v", err)
	}
	inject := func(obj client.Object, only int) {
		for i, w := range webhooksOf(obj) {
			bundle := m.CABundle()
			if only >= 0 && i != only {
				continue
			}
			patch, err := bundlePatch(obj.GetResourceVersion(), []string{w.name}, bundle)
			must(t, err)
			must(t, c.Patch(t.Context(), obj, patch))
		}
	}
	key := client.ObjectKey{Name: "curfew"}
	inject(get(t, c, key, &admissionv1.ValidatingWebhookConfiguration{}), -1)
	inject(get(t, c, key, &admissionv1.MutatingWebhookConfiguration{}), 0)
	if err := m.check(t.Context()); err == nil || !strings.Contains(err.Error(), "b.curfew.dev") {
		t.Errorf("the webhook that does not trust it is not named: %v", err)
	}
	inject(get(t, c, key, &admissionv1.MutatingWebhookConfiguration{}), 1)
	until(t, "all webhooks trust it", m.Ready)

	first, _ := m.GetCertificate(nil)
	mount(t, dir, "two", ca)
	until(t, "the renewed certificate", func() bool {
		now, err := m.GetCertificate(nil)
		return err == nil && !slices.Equal(now.Certificate[0], first.Certificate[0])
	})
	clk.ahead.Store(int64(2 * time.Hour))
	if m.Ready() {
		t.Error("ready with a certificate that has ended")
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("Start: %v", err)
	}
}

// movable is the real clock, put forward.
type movable struct {
	clock.RealClock
	ahead atomic.Int64
}

func (m *movable) Now() time.Time { return m.RealClock.Now().Add(time.Duration(m.ahead.Load())) }

// A server that requires client certificates accepts a certificate with an allowed name that one of
// its CAs has signed. It reads the file again for each connection.
func TestRequireClients(t *testing.T) {
	now := time.Now()
	server, a, two := mustCA(t, now), mustCA(t, now), mustCA(t, now)
	file := filepath.Join(t.TempDir(), "ca.crt")
	trust := func(ca *authority) {
		must(t, os.WriteFile(file, encode(ca.certificate), 0o600))
	}
	served, err := newLeaf(server, servingSpec([]string{"localhost"}, nil), now, time.Hour)
	must(t, err)
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*served.certificate}}
	if _, err := RequireClients(config, file, nil); err == nil {
		t.Error("a file that does not exist is taken")
	}
	trust(a)
	any, err := RequireClients(config, file, nil)
	must(t, err)
	named, err := RequireClients(config, file, []string{"another", "curfew-webhook"})
	must(t, err)
	others, err := RequireClients(config, file, []string{"another"})
	must(t, err)
	for name, c := range map[string]struct {
		server *tls.Config
		by     *authority
		want   bool
	}{
		"any name":        {any, a, true},
		"an allowed name": {named, a, true},
		"another name":    {others, a, false},
		"another CA":      {any, two, false},
		"no certificate":  {any, nil, false},
	} {
		if err := asked(t, c.server, c.by); (err == nil) != c.want {
			t.Errorf("%s: %v, want taken: %v", name, err, c.want)
		}
	}
	trust(two)
	if err := asked(t, any, two); err != nil {
		t.Errorf("the new CA is not taken: %v", err)
	}
	if asked(t, any, a) == nil {
		t.Error("the old CA still is")
	}
	must(t, os.Remove(file))
	if asked(t, any, two) == nil {
		t.Error("without CAs the server accepts any client")
	}
}

func mustCA(t *testing.T, now time.Time) *authority {
	t.Helper()
	ca, err := newCA(now, DefaultCALifetime)
	must(t, err)
	return ca
}

// asked is how the server's side of a handshake ends with a client that has a certificate of a CA.
func asked(t *testing.T, config *tls.Config, by *authority) error {
	t.Helper()
	client := &tls.Config{InsecureSkipVerify: true}
	if by != nil {
		spec := servingSpec(nil, nil)
		spec.Usages = append(spec.Usages, "client auth")
		l, err := newLeaf(by, spec, time.Now(), time.Hour)
		must(t, err)
		client.Certificates = []tls.Certificate{*l.certificate}
	}
	serverEnd, clientEnd := net.Pipe()
	defer serverEnd.Close()
	defer clientEnd.Close()
	go func() {
		conn := tls.Client(clientEnd, client)
		_ = conn.HandshakeContext(t.Context())
		_, _ = conn.Read(make([]byte, 1))
	}()
	return tls.Server(serverEnd, config).HandshakeContext(t.Context())
}
