package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func newSelfSigned(t *testing.T, c client.WithWatch, clk clock.Clock) *SelfSigned {
	t.Helper()
	s, err := NewSelfSigned(Options{
		Client:    c,
		Namespace: "curfew-system",
		DNSNames:  append(ServiceDNSNames("curfew-webhook", "curfew-system"), "localhost"),
		IPs:       []net.IP{loopback},
		Clock:     clk,
	})
	must(t, err)
	return s
}

func mutating(name string) *admissionv1.MutatingWebhookConfiguration {
	url, path := "https://127.0.0.1:9443/mutate", "/mutate-namespace"
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.MutatingWebhook{
			{Name: "a.curfew.dev", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}},
			{Name: "b.curfew.dev", ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: "curfew-system", Name: "curfew-webhook", Path: &path},
			}},
		},
	}
}

func validating(name string) *admissionv1.ValidatingWebhookConfiguration {
	url := "https://127.0.0.1:9443/validate"
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   []admissionv1.ValidatingWebhook{{Name: "a.curfew.dev", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}}},
	}
}

func get[T client.Object](t *testing.T, c client.Client, key client.ObjectKey, into T) T {
	t.Helper()
	must(t, c.Get(t.Context(), key, into))
	return into
}

// TestReplicasConverge lets a second replica finish its whole pass at the worst moment of the
// first: between reading and writing, for the first creation and for a later replacement.
func TestReplicasConverge(t *testing.T) {
	tests := map[string]struct {
		seed func(t *testing.T, c client.WithWatch)
	}{
		"no Secret yet": {seed: func(*testing.T, client.WithWatch) {}},
		"expired Secret": {seed: func(t *testing.T, c client.WithWatch) {
			old := newSelfSigned(t, c, clocktesting.NewFakeClock(epoch.Add(-3*DefaultCALifetime)))
			if _, err := old.ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		"garbage in the Secret": {seed: func(t *testing.T, c client.WithWatch) {
			garbage := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "curfew-system", Name: DefaultSecretName},
				Data: map[string][]byte{keyBundle: []byte("x"), keyCA: []byte("y")}}
			must(t, c.Create(t.Context(), garbage))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			shared := fake.NewClientBuilder().Build()
			tc.seed(t, shared)
			winner := newSelfSigned(t, shared, clocktesting.NewFakeClock(epoch))
			var won outcome
			writes := 0
			first := func() {
				if writes++; writes == 1 {
					var err error
					if won, err = winner.ensure(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			loser := newSelfSigned(t, interceptor.NewClient(shared, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					first()
					return c.Create(ctx, obj, opts...)
				},
				Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
					first()
					return c.Update(ctx, obj, opts...)
				},
			}), clocktesting.NewFakeClock(epoch))

			lost, err := loser.ensure(t.Context())
			must(t, err)
			if writes != 1 {
				t.Errorf("the loser wrote %d times, want 1 refused attempt", writes)
			}
			for _, key := range []string{keyBundle, keyCA, keyCAKey} {
				if !bytes.Equal(won.data[key], lost.data[key]) {
					t.Errorf("the replicas differ in %s", key)
				}
			}
		})
	}
}

func TestGarbageIsReplacedWithALoggedReason(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "curfew-system", Name: DefaultSecretName},
		Data:       map[string][]byte{keyBundle: []byte("garbage"), "notes": []byte("kept")},
	}).Build()
	var logged strings.Builder
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{}))

	if _, err := newSelfSigned(t, c, clocktesting.NewFakeClock(epoch)).ensure(ctx); err != nil {
		t.Fatal(err)
	}
	secret := get(t, c, client.ObjectKey{Namespace: "curfew-system", Name: DefaultSecretName}, &corev1.Secret{})
	if m, problems := parse(secret.Data, epoch); len(problems) > 0 || m.signing == nil {
		t.Errorf("after the repair: %q", problems)
	}
	if string(secret.Data["notes"]) != "kept" {
		t.Error("a foreign key is gone")
	}
	for _, want := range []string{"ca.crt: ", "tls.crt: missing", `"name"="curfew-webhook-tls"`} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log does not say %q: %s", want, logged.String())
		}
	}
	if strings.Contains(logged.String(), "PRIVATE KEY") {
		t.Error("a private key is in the log")
	}
}

func TestInjectionTouchesOnlyTheBundle(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(mutating("curfew"), validating("curfew"), mutating("another")).Build()
	patches := 0
	s := newSelfSigned(t, interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, obj, patch, opts...)
		},
	}), clocktesting.NewFakeClock(epoch))
	for range 2 {
		if _, err := s.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if patches != 2 {
		t.Errorf("%d patches in two passes, want one for each of two configurations, once", patches)
	}

	got, want := get(t, c, client.ObjectKey{Name: "curfew"}, &admissionv1.MutatingWebhookConfiguration{}), mutating("curfew")
	if len(got.Webhooks) != len(want.Webhooks) {
		t.Fatalf("%d webhooks, want %d", len(got.Webhooks), len(want.Webhooks))
	}
	for i, w := range got.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, s.CABundle()) {
			t.Errorf("%s: bundle not injected", w.Name)
		}
		w.ClientConfig.CABundle = nil
		if gotJSON, wantJSON := w.String(), want.Webhooks[i].String(); gotJSON != wantJSON {
			t.Errorf("changed beside the bundle:\n%s\nwant\n%s", gotJSON, wantJSON)
		}
	}
	v := get(t, c, client.ObjectKey{Name: "curfew"}, &admissionv1.ValidatingWebhookConfiguration{})
	if !bytes.Equal(v.Webhooks[0].ClientConfig.CABundle, s.CABundle()) {
		t.Error("validating: bundle not injected")
	}
	if other := get(t, c, client.ObjectKey{Name: "another"}, &admissionv1.MutatingWebhookConfiguration{}); other.Webhooks[0].ClientConfig.CABundle != nil {
		t.Error("a configuration that was not named got the bundle")
	}
}

// TestSlowReplicaDoesNotUndoAnInjection: the slow one has read the old Secret when the fast one
// rotates the CA and injects.
func TestSlowReplicaDoesNotUndoAnInjection(t *testing.T) {
	for _, sleepsAfter := range []string{"reading the Secret", "preparing the patch"} {
		t.Run(sleepsAfter, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(mutating("curfew")).Build()
			if _, err := newSelfSigned(t, c, clocktesting.NewFakeClock(epoch)).ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			fast := newSelfSigned(t, c, clocktesting.NewFakeClock(epoch.Add(DefaultCALifetime*3/4)))
			slept := false
			sleep := func(ctx context.Context, here string) {
				if !slept && here == sleepsAfter {
					slept = true
					if _, err := fast.pass(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			slowClock := clocktesting.NewFakeClock(epoch)
			slow := newSelfSigned(t, interceptor.NewClient(c, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					err := c.Get(ctx, key, obj, opts...)
					if _, ok := obj.(*corev1.Secret); ok {
						sleep(ctx, "reading the Secret")
					}
					return err
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					sleep(ctx, "preparing the patch")
					return c.Patch(ctx, obj, patch, opts...)
				},
			}), slowClock)

			if _, err := slow.pass(t.Context()); !apierrors.IsConflict(err) {
				t.Errorf("the slow replica's pass: %v, want a conflict", err)
			}
			got := get(t, c, client.ObjectKey{Name: "curfew"}, &admissionv1.MutatingWebhookConfiguration{})
			if !bytes.Equal(got.Webhooks[0].ClientConfig.CABundle, fast.CABundle()) {
				t.Error("the older bundle stands over the newer one")
			}
			slowClock.SetTime(epoch.Add(DefaultCALifetime * 3 / 4))
			if _, err := slow.pass(t.Context()); err != nil || !bytes.Equal(slow.CABundle(), fast.CABundle()) {
				t.Errorf("the slow replica did not catch up (err %v)", err)
			}
		})
	}
}

// handshake dials the provider through real TLS over a pipe, as an API server that trusts bundle
// would.
func handshake(t *testing.T, s *SelfSigned, bundle []byte) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	serverEnd, clientEnd := net.Pipe()
	defer serverEnd.Close()
	defer clientEnd.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = tls.Server(serverEnd, &tls.Config{GetCertificate: s.GetCertificate, Time: time.Now}).HandshakeContext(t.Context())
	}()
	err := tls.Client(clientEnd, &tls.Config{RootCAs: roots, ServerName: "curfew-webhook.curfew-system.svc", Time: time.Now}).HandshakeContext(t.Context())
	clientEnd.Close()
	<-served
	return err
}

func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 3
		c := fake.NewClientBuilder().WithObjects(mutating("curfew")).Build()
		flaky := interceptor.NewClient(c, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, ok := obj.(*corev1.Secret); ok && refusals > 0 {
					refusals--
					return errors.New("connection refused")
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		s := newSelfSigned(t, flaky, clock.RealClock{}) // the bubble's clock
		if _, err := s.GetCertificate(nil); err == nil || s.Ready() || s.CABundle() != nil {
			t.Error("serves before there is anything to serve")
		}

		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- s.Start(ctx) }()

		synctest.Wait()
		if s.Ready() {
			t.Error("ready although the Secret could not be read")
		}
		time.Sleep(firstRetry * 8)
		synctest.Wait()
		if !s.Ready() {
			t.Fatal("not ready after the API server came back")
		}
		if err := handshake(t, s, s.CABundle()); err != nil {
			t.Errorf("handshake: %v", err)
		}

		t.Log("a bundle that someone strips comes back")
		stripped := get(t, c, client.ObjectKey{Name: "curfew"}, &admissionv1.MutatingWebhookConfiguration{})
		stripped.Webhooks[1].ClientConfig.CABundle = nil
		must(t, c.Update(t.Context(), stripped))
		time.Sleep(2 * calm)
		synctest.Wait()
		if got := get(t, c, client.ObjectKey{Name: "curfew"}, &admissionv1.MutatingWebhookConfiguration{}); !bytes.Equal(got.Webhooks[1].ClientConfig.CABundle, s.CABundle()) {
			t.Error("the bundle stays away")
		}

		t.Log("a configuration that is created later gets it too")
		must(t, c.Create(t.Context(), validating("curfew")))
		time.Sleep(2 * calm)
		synctest.Wait()
		if got := get(t, c, client.ObjectKey{Name: "curfew"}, &admissionv1.ValidatingWebhookConfiguration{}); !bytes.Equal(got.Webhooks[0].ClientConfig.CABundle, s.CABundle()) {
			t.Error("the new configuration has no bundle")
		}

		t.Log("a Secret that someone deletes is made again, and served without a restart")
		before := s.CABundle()
		must(t, c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "curfew-system", Name: DefaultSecretName}}))
		time.Sleep(2 * calm)
		synctest.Wait()
		if bytes.Equal(before, s.CABundle()) {
			t.Error("the old CA is still in use")
		}
		got := get(t, c, client.ObjectKey{Name: "curfew"}, &admissionv1.MutatingWebhookConfiguration{})
		if err := handshake(t, s, got.Webhooks[0].ClientConfig.CABundle); err != nil {
			t.Errorf("handshake with the injected bundle: %v", err)
		}

		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
}

// TestHotReload renews at the due time, under a clock that the test moves: three weeks of passes a
// minute apart are too many for a fake client.
func TestHotReload(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(mutating("curfew")).Build()
	clk := clocktesting.NewFakeClock(epoch)
	s := newSelfSigned(t, c, clk)
	if _, err := s.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, _ := s.GetCertificate(nil)
	clk.SetTime(epoch.Add(DefaultServingLifetime * 2 / 3))
	if _, err := s.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, _ := s.GetCertificate(nil)
	if first.Leaf.Equal(second.Leaf) || !second.Leaf.NotAfter.Equal(clk.Now().Add(DefaultServingLifetime)) {
		t.Errorf("after the renewal time the served certificate still ends %s", second.Leaf.NotAfter)
	}
	clk.SetTime(second.Leaf.NotAfter)
	if s.Ready() {
		t.Error("ready with an expired certificate")
	}
}

func TestPassSaysWhenToComeBack(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	clk := clocktesting.NewFakeClock(epoch)
	s := newSelfSigned(t, c, clk)
	wait, err := s.pass(t.Context())
	if err != nil || wait != resync {
		t.Errorf("wait %s, err %v; want %s", wait, err, resync)
	}
	leaf, _ := s.GetCertificate(nil)
	instant := renewal(leaf.Leaf)
	clk.SetTime(instant.Add(-20 * time.Second))
	if wait, err = s.pass(t.Context()); err != nil || wait != 20*time.Second {
		t.Errorf("wait %s, err %v; want the 20s to the renewal", wait, err)
	}
	clk.SetTime(instant.Add(-time.Millisecond))
	if wait, err = s.pass(t.Context()); err != nil || wait != calm {
		t.Errorf("wait %s, err %v; want never less than %s", wait, err, calm)
	}
}

func TestOptions(t *testing.T) {
	_, err := NewSelfSigned(Options{CALifetime: time.Minute})
	want := "certs options: Client is required\n" +
		"Namespace is required: set it to the namespace Curfew runs in\n" +
		"DNSNames or IPs is required: set what the API server dials, for example ServiceDNSNames\n" +
		"CALifetime 1m0s and ServingLifetime 2160h0m0s must each be at least 18m0s"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// fakeWithoutSecrets refuses to read Secrets.
func fakeWithoutSecrets(t *testing.T) client.WithWatch {
	t.Helper()
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Secret); ok {
				return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("no such rule"))
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
}
